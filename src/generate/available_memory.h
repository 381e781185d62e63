#pragma once

#include <cstdint>

namespace cairn::generate {

/// Bytes of memory that this process may still take: what the system can give
/// without swapping, at most the limit of the control group.
std::int64_t available_memory();

} // namespace cairn::generate
