#pragma once

#include <cstdint>
#include <string>

namespace cairn::cli {

/// "500", "100MB", "1.5GB" (powers of 1000), "64MiB" or "64M" (of 1024).
/// Anything else is a ConfigError that names the flag.
std::uint64_t byte_size_from(const std::string& flag, const std::string& text);

/// "1.53 GB"
std::string shown_byte_size(std::uint64_t bytes);

} // namespace cairn::cli
