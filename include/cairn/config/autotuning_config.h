#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cairn::config {

enum class TuningMetric { latency, throughput, flops };
enum class TunerType { gridsearch, random, model_based };

struct AutotuningConfig {
  bool enabled = false;
  bool fast = true;
  std::string results_dir = "autotuning_results";
  std::string exps_dir = "autotuning_exps";
  bool overwrite = true;
  TuningMetric metric = TuningMetric::throughput;
  std::optional<std::string> metric_path;
  std::int64_t start_profile_step = 3;
  std::int64_t end_profile_step = 5;
  TunerType tuner_type = TunerType::gridsearch;
  std::int64_t tuner_early_stopping = 5;
  std::int64_t tuner_num_trials = 50;
  std::optional<std::int64_t> max_train_batch_size;
  std::int64_t min_train_batch_size = 1;
  std::int64_t max_train_micro_batch_size_per_gpu = 1024;
  std::int64_t min_train_micro_batch_size_per_gpu = 1;
  std::int64_t num_tuning_micro_batch_sizes = 3;
  std::int64_t mp_size = 1;
};

} // namespace cairn::config
