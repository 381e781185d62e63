#pragma once

#include <cairn/config/batch_config.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::config {

/// An effective batch that many world sizes can run.
struct ElasticityConfig {
  bool enabled = false;
  std::int64_t max_train_batch_size = 2000;
  std::vector<std::int64_t> micro_batch_sizes{2, 4, 6};
  std::int64_t min_gpus = 1;
  std::int64_t max_gpus = 10000;
  std::int64_t min_time = 0;
  bool prefer_larger_batch = true;
  bool ignore_non_elastic_batch_info = false;
  double version = 0.2;
  std::int64_t model_parallel_size = 1;
  std::int64_t num_gpus_per_node = 1;
};

struct ElasticBatch {
  BatchConfig batch;
  std::vector<std::int64_t> valid_world_sizes; ///< world sizes that can run it
};

/// The batch for this world size, as DeepSpeed chooses it. Throws ConfigError
/// naming the valid world sizes when this one is none of them.
ElasticBatch resolve_elastic_batch(
    const ElasticityConfig& config,
    std::int64_t world_size,
    const std::string& where = "elasticity");

} // namespace cairn::config
