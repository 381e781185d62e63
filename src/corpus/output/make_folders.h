#pragma once

#include <filesystem>

namespace cairn::corpus {

/// Makes the folder and its parents where they are missing. Throws DataError if
/// that fails. An empty path is the current folder.
void make_folders(const std::filesystem::path& folder);

} // namespace cairn::corpus
