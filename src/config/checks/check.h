#pragma once

#include <cairn/config/config.h>

// The parts of Config::check, one file each.

namespace cairn::config {

/// Refuses keys and values that DeepSpeed knows and Cairn does not build.
void check_support(const Config& config);
/// Refuses JSON settings that do not go together.
void check_deepspeed(const Config& config);
/// Refuses ZeRO's groups and packed communication where they cannot work.
void check_zero_groups(const Config& config);
/// Refuses shapes and degrees that cannot work; needs no allocation.
void check_shapes(const Config& config);
/// Refuses flags that contradict each other.
void check_flags(const Config& config);

/// Throws a ConfigError that names where `name` (a key or a flag) was given.
[[noreturn]] void refuse(
    const Config& config,
    const std::string& name,
    std::string what,
    std::string remedy = "");

} // namespace cairn::config
