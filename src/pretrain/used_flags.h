#pragma once

#include <cairn/config/config.h>

#include <set>
#include <string_view>

namespace cairn::pretrain {

/// Throws ConfigError naming every flag that was given and that pretraining
/// does not act on: nothing is ignored in silence.
void refuse_unused_flags(const config::Config& config);

/// The same for another command and what it acts on.
void refuse_unused_flags(
    const config::Config& config,
    std::string_view command,
    const std::set<std::string_view>& used);

} // namespace cairn::pretrain
