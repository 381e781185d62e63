#pragma once

#include <cairn/config/config.h>

namespace cairn::pretrain {

/// Throws ConfigError naming every flag that was given and that pretraining
/// does not act on: nothing is ignored in silence.
void refuse_unused_flags(const config::Config& config);

} // namespace cairn::pretrain
