#pragma once

#include <cstdint>

namespace cairn::distributed {

/// Raises the limit of open files of this process to `wanted`, or as far as the
/// hard limit lets it, and returns the limit afterwards. Never lowers it.
/// Shells often start programs with a limit of 1,024, which is fewer than the
/// connections of a large job.
std::uint64_t allow_open_files(std::uint64_t wanted);

} // namespace cairn::distributed
