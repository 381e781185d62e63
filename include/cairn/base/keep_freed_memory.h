#pragma once

namespace cairn {

/// For programs that take and free the same large blocks in every step: the
/// process keeps what it frees and takes it again, where malloc would return it
/// to the system and the system would clear it anew (a twentieth of a training
/// step on a CPU). For the whole process: libraries leave it to the program.
void keep_freed_memory();

/// libtorch's builds for Arm have an allocator of their own, mimalloc, which
/// can be told the same only by a variable that is set before the program
/// starts. `cairn` and `cairn launch` set it unless it is set.
inline constexpr const char* keep_memory_variable = "MIMALLOC_PURGE_DELAY";
inline constexpr const char* keep_memory_value = "-1"; ///< never

} // namespace cairn
