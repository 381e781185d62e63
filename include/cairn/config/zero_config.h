#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace cairn::config {

/// The part of the training state that is partitioned over the data-parallel
/// ranks; each stage adds one.
enum class ZeroStage {
  disabled = 0,
  optimizer_states = 1,
  gradients = 2,
  weights = 3
};

enum class OffloadDevice { none, cpu, nvme };

/// The processor that updates an optimizer's offloaded states; `measured`: the
/// faster one, found at the start.
enum class OffloadUpdate { cpu, gpu, measured };

struct OffloadParamConfig {
  OffloadDevice device = OffloadDevice::none;
  std::optional<std::string> nvme_path;
  std::int64_t buffer_count = 5;
  std::int64_t buffer_size = 100'000'000;
  std::int64_t max_in_cpu = 1'000'000'000;
  bool pin_memory = true;
};

struct OffloadOptimizerConfig {
  OffloadDevice device = OffloadDevice::none;
  std::optional<std::string> nvme_path;
  std::int64_t buffer_count = 4;
  bool pin_memory = true;
  bool pipeline_read = false;
  bool pipeline_write = false;
  bool fast_init = false;
  double ratio = 1.0; ///< part of the states that leave the device
  /// With the device nvme: part of the states that rests in host memory.
  double cpu_ratio = 0;
  /// Unset: on the CPU if all states leave the device, else on the device.
  std::optional<OffloadUpdate> update_on;
  bool super_offload = false;
  double cpuadam_cores_perc = 0.8;
};

/// Asynchronous file access for the NVMe tier.
struct AioConfig {
  std::int64_t block_size = 1 << 20;
  std::int64_t queue_depth = 8;
  std::int64_t intra_op_parallelism = 1;
  bool single_submit = false;
  bool overlap_events = true;
  bool use_gds = false;
};

/// Python module classes that DeepSpeed fetches as one unit.
struct LeafModuleConfig {
  std::vector<std::string> classes{
      "transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock",
      "transformers.models.qwen2_moe.modeling_qwen2_moe."
      "Qwen2MoeSparseMoeBlock",
      "transformers.models.qwen3_moe.modeling_qwen3_moe."
      "Qwen3MoeSparseMoeBlock"};
  std::vector<std::string> names;
  std::vector<std::string> name_suffixes;
};

/// Old spellings. The reader moves their values to today's members, so they are
/// unset in a Config.
struct OldZeroKeys {
  std::optional<bool> cpu_offload;
  std::optional<bool> cpu_offload_param;
  std::optional<bool> cpu_offload_use_pin_memory;
  bool gather_fp16_weights_on_model_save = false;
};

/// Sizes count elements, not bytes.
struct ZeroConfig {
  ZeroStage stage = ZeroStage::disabled;
  bool contiguous_gradients = true;
  bool reduce_scatter = true;
  std::int64_t reduce_bucket_size = 500'000'000;
  bool use_multi_rank_bucket_allreduce = true;
  bool allgather_partitions = true;
  std::int64_t allgather_bucket_size = 500'000'000;
  std::optional<bool> overlap_comm; ///< resolved: true exactly at stage 3
  bool load_from_fp32_weights = true;
  bool elastic_checkpoint = false;
  std::optional<OffloadParamConfig> offload_param;
  std::optional<OffloadOptimizerConfig> offload_optimizer;
  std::int64_t sub_group_size = 1'000'000'000;
  std::int64_t prefetch_bucket_size = 50'000'000;
  std::int64_t param_persistence_threshold = 100'000;
  std::int64_t model_persistence_threshold =
      std::numeric_limits<std::int64_t>::max();
  std::int64_t max_live_parameters = 1'000'000'000;
  std::int64_t max_reuse_distance = 1'000'000'000;
  bool gather_16bit_weights_on_model_save = false;
  std::int64_t module_granularity_threshold = 0;
  bool use_all_reduce_for_fetch_params = false;
  bool allgather_sequential = false;
  bool ignore_unused_parameters = true;
  bool legacy_stage1 = false;
  bool round_robin_gradients = false;
  std::int64_t zero_hpz_partition_size = 1;
  bool zero_quantized_weights = false;
  bool zero_quantized_nontrainable_weights = false;
  bool zero_quantized_gradients = false;
  std::int64_t mics_shard_size = -1; ///< -1: shard over all ranks
  bool mics_hierarchical_params_gather = false;
  bool memory_efficient_linear = true;
  bool pipeline_loading_checkpoint = false;
  bool override_module_apply = true;
  bool log_trace_cache_warnings = false;
  bool enable_sanity_checks = false;
  bool save_muon_momentum_buffer_in_memory = false;
  bool grad_hooks = true;
  LeafModuleConfig leaf_module;
  OldZeroKeys old;
};

} // namespace cairn::config
