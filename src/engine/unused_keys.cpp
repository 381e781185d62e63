#include "engine/unused_keys.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace cairn::engine {

namespace {

// Keys, and sections with all that is in them.
constexpr std::array used{
    "activation_checkpointing", // checked again with the first pass
    "aio",
    "amp",
    "bf16.check_grad_overflow",
    "bf16.enabled",
    "checkpoint.async",
    "checkpoint.keep_every",
    "checkpoint.keep_last",
    "communication_data_type",
    "csv_monitor",
    "curriculum_learning", // checked again with the first pass
    "data_types.grad_accum_dtype",
    "dataloader_drop_last",
    "elasticity",
    "fp16.at_minimum_scale",
    "fp16.consecutive_hysteresis",
    "fp16.enabled",
    "fp16.hysteresis",
    "fp16.initial_scale_power",
    "fp16.loss_scale",
    "fp16.loss_scale_window",
    "fp16.min_loss_scale",
    "gradient_accumulation_steps",
    "gradient_clipping",
    "gradient_predivide_factor",
    "optimizer",
    "prescale_gradients",
    "scheduler",
    "steps_per_print",
    "tensorboard",
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "wall_clock_breakdown",
    "zero_allow_untested_optimizer",        // all of ours are tested
    "zero_optimization.elastic_checkpoint", // all of ours are
    "zero_optimization.mics_hierarchical_params_gather",
    "zero_optimization.mics_shard_size",
    "zero_optimization.offload_optimizer.buffer_count",
    "zero_optimization.offload_optimizer.device",
    "zero_optimization.offload_optimizer.nvme_path",
    "zero_optimization.offload_optimizer.pin_memory",
    "zero_optimization.offload_param.buffer_count",
    "zero_optimization.offload_param.device",
    "zero_optimization.offload_param.max_in_cpu",
    "zero_optimization.offload_param.nvme_path",
    "zero_optimization.offload_param.pin_memory",
    "zero_optimization.overlap_comm",
    "zero_optimization.reduce_bucket_size",
    "zero_optimization.stage",
    "zero_optimization.stage3_max_live_parameters",
    "zero_optimization.stage3_max_reuse_distance",
    "zero_optimization.stage3_model_persistence_threshold",
    "zero_optimization.stage3_param_persistence_threshold",
    "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.zero_hpz_partition_size",
    "zero_optimization.zero_quantized_gradients",
    "zero_optimization.zero_quantized_nontrainable_weights",
    "zero_optimization.zero_quantized_weights"};

bool covers(std::string_view key, std::string_view path) {
  return path.starts_with(key) &&
      (path.size() == key.size() || path[key.size()] == '.');
}

} // namespace

std::vector<std::string> unused_keys(
    const config::Config& config,
    std::span<const std::string> used_elsewhere) {
  std::vector<std::string> result;
  for (const auto& [path, place] : config.given) {
    const bool is_section = std::ranges::any_of(used, [&](const char* key) {
      return covers(path, key);
    });
    const bool is_used = std::ranges::any_of(used, [&](const char* key) {
      return covers(key, path);
    });
    const bool is_elsewhere =
        std::ranges::any_of(used_elsewhere, [&](const std::string& key) {
          return covers(key, path) || covers(path, key);
        });
    if (!is_used && !is_section && !is_elsewhere && !path.starts_with("--")) {
      result.push_back(path);
    }
  }
  return result;
}

} // namespace cairn::engine
