#pragma once

#include <cstdint>

namespace cairn::cli {

/// The most memory in bytes that this process has had so far.
std::uint64_t peak_memory();

} // namespace cairn::cli
