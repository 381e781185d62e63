#pragma once

#include <cairn/config/precision_config.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::config {

enum class ReduceOp { mean, sum };

/// Settings of scaling, reducing and clipping gradients.
struct GradientConfig {
  double clipping = 1.0; ///< 0: off
  bool prescale = false;
  double predivide_factor = 1.0;
  ReduceOp allreduce_op = ReduceOp::mean;
  bool sparse = false;
  bool managed_accumulation = true;
  std::optional<DataType> communication_data_type;
};

struct ActivationCheckpointingConfig {
  bool partition_activations = false;
  bool cpu_checkpointing = false;
  bool contiguous_memory_optimization = false;
  std::optional<std::int64_t> number_checkpoints;
  bool synchronize_checkpoint_boundary = false;
  bool profile = false;
};

enum class TagValidation { ignore, warn, fail };

struct CheckpointConfig {
  bool async = true;
  std::optional<std::int64_t> keep_last;
  std::optional<std::int64_t> keep_every;
  TagValidation tag_validation = TagValidation::warn;
  bool load_universal = false;
  bool use_node_local_storage = false;
  bool pipeline_stage = false; ///< parallel_write.pipeline_stage
};

struct PipelineConfig {
  std::optional<std::int64_t> stages; ///< absent: as many as the mesh has
  std::string partition = "best";
  bool seed_layers = false;
  std::int64_t activation_checkpoint_interval = 0;
  bool pipe_partitioned = true;
  bool grad_partitioned = true;
  bool use_reentrant = true;
};

enum class CurriculumSchedule { fixed_linear, fixed_root, fixed_discrete };

/// Training on short sequences first.
struct CurriculumConfig {
  bool enabled = false;
  std::string type = "seqlen";
  std::optional<std::int64_t> min_difficulty;
  std::optional<std::int64_t> max_difficulty;
  std::optional<CurriculumSchedule> schedule_type;
  std::optional<std::int64_t> total_curriculum_step;
  std::optional<std::int64_t> difficulty_step;
  std::optional<std::int64_t> root_degree;
  std::vector<std::int64_t> difficulty;
  std::vector<std::int64_t> max_step;
};

/// Layers that compute a random part of every sequence's tokens, which grows;
/// the other tokens pass them by. The section data_efficiency.
struct RandomLtdConfig {
  bool data_efficiency = false; ///< the sections that it is in are enabled
  bool data_routing = false;
  bool enabled = false;
  bool is_on() const { return data_efficiency && data_routing && enabled; }
  std::int64_t seed = 1234;
  std::optional<std::int64_t> total_layers;
  std::optional<std::int64_t> layer_count;
  std::vector<std::int64_t> layers; ///< random_ltd_layer_id
  std::optional<std::string> mask_name;
  std::string model_type = "decoder";
  std::string hidden_state_order = "batch_seq_dim";
  std::string schedule_type = "fixed_linear";
  /// Schedule of the tokens that are computed; its first step is 0.
  CurriculumConfig schedule{.schedule_type = CurriculumSchedule::fixed_linear};
};

struct DataLoaderConfig {
  bool drop_last = false;
};

} // namespace cairn::config
