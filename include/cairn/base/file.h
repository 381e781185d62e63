#pragma once

#include <cairn/base/unique_fd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace cairn {

/// open(2) with O_CLOEXEC, tried again after a signal; throws DataError with
/// the path and the reason. `mode` counts only where `flags` has O_CREAT.
UniqueFd open_file(
    const std::filesystem::path& path,
    int flags,
    unsigned mode = 0666);

/// The whole file. One of more than `limit` bytes is a DataError, found before
/// more than that is in memory: also for pipes and /proc, whose size is
/// unknown.
std::string read_file(const std::filesystem::path& path, std::uint64_t limit);

/// Writes everything, whatever write(2) splits it into. `path` is for the
/// message of the DataError only.
void write_all(
    int fd,
    std::span<const std::byte> bytes,
    const std::filesystem::path& path);

} // namespace cairn
