#pragma once

#include <cairn/base/file.h>

#include <filesystem>

namespace cairn::io::detail {

/// Creates a file in `folder` that has no name.
UniqueFd open_unnamed(const std::filesystem::path& folder);

/// Creates a file without a name on file systems where it needs a name for a
/// moment. If a process is killed in that moment, an empty file stays; the next
/// call removes it.
UniqueFd create_and_unlink(const std::filesystem::path& folder);

} // namespace cairn::io::detail
