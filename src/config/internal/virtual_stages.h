#pragma once

#include <cairn/config/flags.h>

#include <cstdint>

namespace cairn::config {

/// Chunks of `blocks` blocks on each pipeline stage: one, or as many as virtual
/// stages are asked for, by their number or their layers. Throws ConfigError if
/// they do not come out even.
int virtual_stages(const DistributedFlags& flags, std::int64_t blocks);

} // namespace cairn::config
