#pragma once

#include <filesystem>

namespace cairn::corpus {

/// The folder and those above it, where they are missing; a DataError when that
/// cannot be done. An empty path is the current folder.
void make_folders(const std::filesystem::path& folder);

} // namespace cairn::corpus
