#pragma once

#include <cairn/checkpoints/deepspeed.h>
#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/model/description.h>

#include <filesystem>

namespace cairn::checkpoints::megatron {

/// The form of Megatron-DeepSpeed's files.
struct DeepSpeedForm {
  bool pipeline = true;   ///< false: of a run with --no-pipeline-parallel
  bool universal = false; ///< true: for any number of ranks and any stage
  /// True: queries, keys and values lie head by head, as Megatron-DeepSpeed had
  /// them until October 2024.
  bool grouped_heads = false;
  int stage = 1; ///< ZeRO's; not of universal checkpoints
  int ranks = 1; ///< data-parallel ones
};

/// Writes a GPT or a Llama as Megatron-DeepSpeed saves it. It loads the files
/// with --no-load-rng. `counters` has the steps, the samples, the loss scaler
/// and DeepSpeed's configuration; its tensors are not used. Throws ConfigError
/// for a model or a form that Megatron-DeepSpeed does not have.
void write_under_deepspeed(
    const std::filesystem::path& folder,
    const model::ModelDescription& description,
    const NamedTensors& tensors,
    const MegatronWriteOptions& options,
    const DeepSpeedForm& form,
    const DeepSpeedState& counters);

} // namespace cairn::checkpoints::megatron
