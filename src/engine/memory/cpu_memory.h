#pragma once

#include <cstdint>

namespace cairn::inline engine {

/// Bytes of CPU memory in use now, for comparing moments. If libtorch uses
/// malloc, it is the memory that malloc has handed out; else the process's
/// pages, including those that an allocator keeps for later.
std::int64_t cpu_memory_in_use();

} // namespace cairn::engine
