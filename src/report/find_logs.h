#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::report {

struct FoundLog {
  std::string name; ///< for people, another for each
  std::filesystem::path path;

  bool operator==(const FoundLog&) const = default;
};

/// The logs of runs that `--log-jsonl` wrote: of each place, which is a log, or
/// a folder with logs, or a folder of such folders. Other .jsonl files in them,
/// such as texts, are left out. A place that is not there is a DataError.
std::vector<FoundLog> find_logs(
    const std::vector<std::filesystem::path>& places);

} // namespace cairn::report
