#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::report {

struct FoundLog {
  std::string name; ///< for people; unique
  std::filesystem::path path;

  bool operator==(const FoundLog&) const = default;
};

/// Finds logs that `--log-jsonl` wrote. A place is a log, a folder with logs,
/// or a folder of such folders. Other .jsonl files, such as texts, are ignored.
/// Throws DataError for a place that does not exist.
std::vector<FoundLog> find_logs(
    const std::vector<std::filesystem::path>& places);

} // namespace cairn::report
