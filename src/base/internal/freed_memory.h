#pragma once

namespace cairn::inline base {

/// Makes the process keep the memory it frees and use it again. For programs
/// that take and free the same large blocks in every step: malloc would return
/// the blocks to the system, and the system would clear them anew (a twentieth
/// of a training step on a CPU). It changes the whole process, so only programs
/// call it, never libraries.
void keep_freed_memory();

/// Makes the process return every large block that it frees to the system. For
/// programs that promise to hold one tensor at a time: glibc would put blocks
/// of up to 32 MB into its heap, which aligned blocks fragment, so that 16 MB
/// at a time grew to 150 MB. Only programs call it, never libraries.
void return_freed_memory();

/// The variable that does the same for mimalloc, the allocator inside
/// libtorch's builds for Arm, which reads its settings only when the program
/// starts. `cairn` and `cairn launch` set the variable unless it is set
/// already.
inline constexpr const char* keep_memory_variable = "MIMALLOC_PURGE_DELAY";
inline constexpr const char* keep_memory_value = "-1"; ///< never purge

} // namespace cairn::base
