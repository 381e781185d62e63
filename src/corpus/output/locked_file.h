#pragma once

#include <cairn/base/file.h>

#include <filesystem>

namespace cairn::corpus {

/// Opens a file for reading and writing, makes it if it is missing, and locks
/// it. Throws DataError when another process has locked it.
UniqueFd open_locked(const std::filesystem::path& path);

} // namespace cairn::corpus
