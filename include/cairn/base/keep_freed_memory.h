#pragma once

namespace cairn {

/// For programs that take and free the same large blocks in every step: the
/// process keeps what it frees and takes it again, where malloc would return it
/// to the system and the system would clear it anew (a twentieth of a training
/// step on a CPU). For the whole process: libraries leave it to the program.
void keep_freed_memory();

} // namespace cairn
