#pragma once

#include <filesystem>

namespace cairn {

/// What was written to `fd` is on the disk; else a DataError about `path`.
void sync_file(int fd, const std::filesystem::path& path);

/// Makes names that were changed in the folder of `path` durable.
void sync_folder_of(const std::filesystem::path& path);

} // namespace cairn
