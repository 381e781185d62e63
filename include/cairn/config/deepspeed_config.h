#pragma once

#include <cairn/config/batch_config.h>
#include <cairn/config/monitor_config.h>
#include <cairn/config/node.h>
#include <cairn/config/optimizer_config.h>
#include <cairn/config/precision_config.h>
#include <cairn/config/training_config.h>
#include <cairn/config/zero_config.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace cairn::config {

enum class TuningMetric { latency, throughput, flops };
enum class TunerType { gridsearch, random, model_based };

struct ModelInfoConfig {
  bool profile = false;
  std::optional<std::int64_t> num_params;
  std::optional<std::int64_t> hidden_size;
  std::optional<std::int64_t> num_layers;
};

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
  ModelInfoConfig model_info;
  std::optional<std::string> model_info_path;
};

/// A DeepSpeed JSON file as typed values. The table in
/// src/config/keys/key_rows.cpp binds every key to its member here and is the
/// only list of key names.
struct DeepSpeedConfig {
  BatchRequest batch_request;
  std::optional<BatchConfig> batch; ///< filled by resolution
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  GradientConfig gradients;
  Fp16Config fp16;
  Bf16Config bf16;
  AmpConfig amp;
  DataTypesConfig data_types;
  ZeroConfig zero;
  bool zero_allow_untested_optimizer = false;
  bool zero_force_ds_cpu_optimizer = true;
  AioConfig aio;
  ActivationCheckpointingConfig activation_checkpointing;
  LoggingConfig logging;
  FlopsProfilerConfig flops_profiler;
  MonitorConfig tensorboard;
  MonitorConfig csv_monitor;
  CommsLoggerConfig comms_logger;
  ThroughputTimerConfig throughput_timer;
  CheckpointConfig checkpoint;
  PipelineConfig pipeline;
  ElasticityConfig elasticity;
  AutotuningConfig autotuning;
  CurriculumConfig curriculum;
  RandomLtdConfig random_ltd;
  DataLoaderConfig dataloader;
  bool disable_allgather = false;
  std::optional<std::int64_t> vocabulary_size;
  std::optional<std::string> log_level;
  DataType seq_parallel_communication_data_type = DataType::fp32;
  bool use_data_before_expert_parallelism = false;
  std::int64_t sequence_parallel_size = 1;
  /// Values of keys that Cairn knows by name only, under their paths.
  std::map<std::string, Node> unsupported;
};

} // namespace cairn::config
