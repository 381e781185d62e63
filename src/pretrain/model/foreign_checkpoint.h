#pragma once

#include "checkpoints/internal/foreign_training.h"

#include <cairn/config/config.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <optional>

namespace cairn::pretrain {

/// A checkpoint of another program that --load names.
struct ForeignCheckpoint {
  checkpoints::ForeignTraining training;
  /// True when the run begins anew from its weights: with --finetune, or from a
  /// release of Megatron's, which has no iteration.
  bool weights_only = false;
};

/// The checkpoint that --load names, if another program's format holds it; none
/// if it is Cairn's own, which the engine loads, or absent. Throws ConfigError
/// if training cannot go on from it and --finetune is not given, and if the
/// model differs from `described` (a larger vocabulary is allowed);
/// CheckpointError for an unreadable file.
std::optional<ForeignCheckpoint> foreign_checkpoint(
    const config::Config& config,
    const model::ModelDescription& described);

/// The vocabulary of Cairn's own checkpoint that --load names, if it is larger
/// than `described`: a run that began with another program's checkpoint has its
/// vocabulary. None if there is no such checkpoint.
std::optional<std::int64_t> larger_vocabulary(
    const config::CheckpointFlags& flags,
    const model::ModelDescription& described);

} // namespace cairn::pretrain
