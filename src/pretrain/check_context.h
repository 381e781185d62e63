#pragma once

#include <cairn/checkpoint/model_description.h>
#include <cairn/config/flags.h>

namespace cairn::pretrain {

/// Throws ConfigError for what ranks that share sequences cannot do.
void check_context(
    const checkpoints::ModelDescription& description,
    const config::Flags& flags);

} // namespace cairn::pretrain
