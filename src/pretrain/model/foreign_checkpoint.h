#pragma once

#include "checkpoints/internal/foreign_training.h"

#include <cairn/config/config.h>
#include <cairn/model/description.h>

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

/// The model of Cairn's own checkpoint that --load names; none if there is no
/// such checkpoint, or it does not say.
std::optional<model::ModelDescription> own_model(const config::Flags& flags);

/// The described model with the checkpoint's form of GELU, which no flag says
/// unless --openai-gelu is given.
model::ModelDescription as_stored(
    model::ModelDescription described,
    const model::ModelDescription& stored,
    const config::Flags& flags);

} // namespace cairn::pretrain
