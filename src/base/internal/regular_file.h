#pragma once

#include <cairn/base/file.h>

#include <filesystem>

namespace cairn::inline base {

/// open_file() for a place where a file on disk belongs. Never waits for the
/// other end of a pipe: a named pipe, a socket and a device other than
/// /dev/null are a DataError. The pipe behind `<(command)` is opened: somebody
/// writes to it already.
UniqueFd open_regular_file(
    const std::filesystem::path& path,
    int flags,
    unsigned mode = 0666);

} // namespace cairn::base
