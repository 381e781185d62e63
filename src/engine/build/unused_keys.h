#pragma once

#include <cairn/config/config.h>

#include <span>
#include <string>
#include <vector>

namespace cairn::inline engine {

/// Keys that were given and that neither the engine nor the program acts on;
/// `used_elsewhere` has the program's. The user is told of each.
std::vector<std::string> unused_keys(
    const config::Config& config,
    std::span<const std::string> used_elsewhere = {});

} // namespace cairn::engine
