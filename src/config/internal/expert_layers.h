#pragma once

#include <cairn/config/flags.h>

#include <cstdint>

namespace cairn::config {

/// True if any layer is to have experts.
bool has_experts(const MoeFlags& flags);

/// Throws ConfigError where the flags do not fit so many layers.
void check_expert_layers(const MoeFlags& flags, std::int64_t layers);

} // namespace cairn::config
