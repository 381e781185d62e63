#pragma once

#include <cairn/config/flags.h>
#include <cairn/model/description.h>
#include <cairn/models/load_model.h>

#include <optional>

namespace cairn::pretrain {

/// The weights that --load names, if another program's format holds them; none
/// if they are Cairn's own, which the engine loads, or absent. Throws
/// ConfigError without --finetune, and if the model differs from `described` (a
/// larger vocabulary is allowed); CheckpointError for an unreadable file.
std::optional<models::StoredModel> foreign_weights(
    const config::Flags& flags,
    const model::ModelDescription& described);

} // namespace cairn::pretrain
