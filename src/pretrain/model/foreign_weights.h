#pragma once

#include <cairn/config/flags.h>
#include <cairn/model/description.h>
#include <cairn/models/load_model.h>

#include <optional>

namespace cairn::pretrain {

/// The weights that --load names, if another program's format holds them; none
/// if that is Cairn's own, which the engine loads, or there is nothing. Throws
/// ConfigError without --finetune, and if its model is another than
/// `described` (but for a larger vocabulary); CheckpointError for what cannot
/// be read.
std::optional<models::StoredModel> foreign_weights(
    const config::Flags& flags,
    const model::ModelDescription& described);

} // namespace cairn::pretrain
