#pragma once

#include <cairn/config/flags.h>

#include <cstdint>
#include <vector>

namespace cairn::config {

/// Whether any layer of GPT is to have experts.
bool has_experts(const MoeFlags& flags);

/// How many experts each of `layers` layers has; 0: an ordinary MLP. Throws
/// ConfigError where the flags do not fit the layers.
std::vector<std::int64_t> experts_of_layers(
    const MoeFlags& flags,
    std::int64_t layers);

} // namespace cairn::config
