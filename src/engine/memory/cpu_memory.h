#pragma once

#include <cstdint>

namespace cairn::inline engine {

/// Bytes of CPU memory in use now, to compare moments with. Where libtorch
/// takes its memory from malloc, what malloc has handed out; elsewhere the
/// process's pages, those included that an allocator keeps for later.
std::int64_t cpu_memory_in_use();

} // namespace cairn::inline engine
