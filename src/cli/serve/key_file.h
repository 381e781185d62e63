#pragma once

#include <string>

namespace cairn::cli {

/// The key in the first line of a file. Throws ConfigError for a file without
/// one.
std::string read_key_file(const std::string& path);

} // namespace cairn::cli
