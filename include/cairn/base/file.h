#pragma once

#include <cairn/base/unique_fd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace cairn::inline base {

/// Calls open(2) with O_CLOEXEC, again after a signal; throws DataError with
/// the path and the reason. `mode` matters only when `flags` has O_CREAT.
UniqueFd open_file(
    const std::filesystem::path& path,
    int flags,
    unsigned mode = 0666);

/// Returns the whole file. A file of more than `limit` bytes is a DataError,
/// raised before more than that is in memory; this holds also for pipes and
/// /proc, whose size is unknown.
std::string read_file(const std::filesystem::path& path, std::uint64_t limit);

/// Writes all bytes, however many write(2) calls that takes. `path` is only for
/// the message of the DataError.
void write_all(
    int fd,
    std::span<const std::byte> bytes,
    const std::filesystem::path& path);

} // namespace cairn::base
