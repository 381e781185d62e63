#pragma once

#include <filesystem>

namespace cairn {

/// Deletes a folder with all in it, or a file; nothing if it is not there.
/// Links are deleted, not followed. Throws DataError for the first thing that
/// cannot be deleted; what came before it is gone.
void remove_tree(const std::filesystem::path& path);

/// The same, as far as it goes: for what is in nobody's way.
void discard_tree(const std::filesystem::path& path) noexcept;

} // namespace cairn
