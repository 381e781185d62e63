#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

namespace cairn::inline base {

/// The variable with the seconds after which making written content durable,
/// fsync(2), counts as failed, because the disk hangs. It limits no other call.
/// Unset, there is no limit.
inline constexpr const char* disk_timeout_variable = "CAIRN_DISK_TIMEOUT";

/// The value of that variable; a ConfigError if it is no number of seconds.
std::optional<std::chrono::seconds> disk_timeout();

/// Makes the content written to `fd` durable; throws a DataError about `path`
/// if that fails, or takes longer than the disk timeout.
void sync_file(int fd, const std::filesystem::path& path);

/// Makes created, renamed and deleted names in the folder of `path` durable.
void sync_folder_of(const std::filesystem::path& path);

} // namespace cairn::base
