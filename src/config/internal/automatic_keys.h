#pragma once

#include <cairn/config/config.h>

#include <set>
#include <string>

namespace cairn::config {

/// The JSON keys that say "auto" and that no flag sets.
std::set<std::string> automatic_keys(const ConfigSource& source);

} // namespace cairn::config
