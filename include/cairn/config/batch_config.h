#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::config {

/// The batch as the user gave it: any of the three may be missing.
struct BatchRequest {
  std::optional<std::int64_t> train_batch_size;
  std::optional<std::int64_t> train_micro_batch_size_per_gpu;
  std::optional<std::int64_t> gradient_accumulation_steps;
};

/// Always consistent: train = micro x accumulation x data_parallel.
struct BatchConfig {
  std::int64_t train = 1;        ///< samples per optimizer step, over all ranks
  std::int64_t micro = 1;        ///< samples per forward pass of one rank
  std::int64_t accumulation = 1; ///< forward passes per optimizer step
  std::int64_t data_parallel = 1;
  bool operator==(const BatchConfig&) const = default;
};

/// Fills in the missing numbers, exactly as DeepSpeed does, and refuses numbers
/// that do not multiply out. `where` starts the message of an error. The only
/// place that knows this rule: JSON files and flags both end up here.
BatchConfig resolve_batch(
    const BatchRequest& request,
    std::int64_t data_parallel_size,
    const std::string& where = "");

/// A line for the start of a run, such as
/// `effective batch 32 = 4 per rank x 4 accumulation x 2 data-parallel`.
std::string describe(const BatchConfig& batch);

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
