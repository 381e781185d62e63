#pragma once

#include <cairn/config/config.h>

#include <span>
#include <string>
#include <vector>

namespace cairn::engine {

/// Keys that were given and that neither the engine nor, `used_elsewhere`, the
/// program acts on: whoever set them should hear of it.
std::vector<std::string> unused_keys(
    const config::Config& config,
    std::span<const std::string> used_elsewhere = {});

} // namespace cairn::engine
