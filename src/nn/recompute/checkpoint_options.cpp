#include <cairn/nn/checkpoint.h>

#include <cairn/base/error.h>
#include <cairn/config/training_config.h>
#include "nn/recompute/activation_buffer.h"

namespace cairn::nn {
namespace {

std::shared_ptr<ActivationBuffer> buffer_of(
    const config::ActivationCheckpointingConfig& config) {
  if (!config.contiguous_memory_optimization) {
    if (config.number_checkpoints) {
      throw ConfigError(
          {.what = "has no effect without contiguous_memory_optimization, "
                   "whose buffer it sizes",
           .where = "activation_checkpointing.number_checkpoints",
           .remedy = "switch that on, or drop this key"});
    }
    return nullptr;
  }
  const std::string where =
      "activation_checkpointing.contiguous_memory_optimization";
  if (!config.partition_activations && !config.cpu_checkpointing) {
    throw ConfigError(
        {.what = "nothing would be copied into its buffer: activations are "
                 "kept where they are",
         .where = where,
         .remedy = "switch on partition_activations or cpu_checkpointing, or "
                   "drop this key"});
  }
  if (!config.number_checkpoints) {
    throw ConfigError(
        {.what = "needs the number of checkpoints to size its buffer",
         .where = where,
         .remedy = "set number_checkpoints to how many a forward pass has"});
  }
  return std::make_shared<ActivationBuffer>(*config.number_checkpoints);
}

} // namespace

CheckpointOptions CheckpointOptions::from(
    const config::ActivationCheckpointingConfig& config,
    const distributed::ProcessGroup& tensor_parallel,
    const Logger& log) {
  CheckpointOptions options;
  options.on_cpu = config.cpu_checkpointing;
  if (config.partition_activations) {
    options.partition_over = tensor_parallel;
  }
  options.buffer = buffer_of(config);
  options.synchronize = config.synchronize_checkpoint_boundary;
  if (config.profile) {
    options.profile = log;
  }
  return options;
}

} // namespace cairn::nn
