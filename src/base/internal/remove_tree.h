#pragma once

#include <filesystem>

namespace cairn::inline base {

/// Deletes a folder with everything in it, or a file; does nothing if the path
/// does not exist. Links are deleted, not followed. Throws DataError at the
/// first entry that cannot be deleted; the entries before it are gone.
void remove_tree(const std::filesystem::path& path);

/// Deletes like remove_tree() but ignores failures: for leftovers that are in
/// nobody's way.
void discard_tree(const std::filesystem::path& path) noexcept;

} // namespace cairn::base
