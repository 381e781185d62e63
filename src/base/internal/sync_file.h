#pragma once

#include <filesystem>

namespace cairn::inline base {

/// Makes the content written to `fd` durable; throws a DataError about `path`
/// if that fails.
void sync_file(int fd, const std::filesystem::path& path);

/// Makes created, renamed and deleted names in the folder of `path` durable.
void sync_folder_of(const std::filesystem::path& path);

} // namespace cairn::base
