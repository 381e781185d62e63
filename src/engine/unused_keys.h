#pragma once

#include <cairn/config/config.h>

#include <string>
#include <vector>

namespace cairn::engine {

/// Keys that were given and that the engine does not act on yet: whoever set
/// them should hear of it.
std::vector<std::string> unused_keys(const config::Config& config);

} // namespace cairn::engine
