#pragma once

#include <cairn/base/unique_fd.h>

#include <filesystem>

namespace cairn::io::detail {

/// A new file that has no name in `folder`, only room there.
UniqueFd open_unnamed(const std::filesystem::path& folder);

/// The same on file systems that must give it a name for a moment. What a
/// process left that was killed in that moment, an empty file, the next call
/// removes.
UniqueFd create_and_unlink(const std::filesystem::path& folder);

} // namespace cairn::io::detail
