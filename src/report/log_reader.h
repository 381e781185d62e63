#pragma once

#include "report/log_records.h"

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace cairn::report {

/// Reads the log of a run, also while it is written. Half a line at its end is
/// left until the rest is there.
class LogReader {
 public:
  explicit LogReader(std::filesystem::path path) : path_(std::move(path)) {}

  /// Takes what was added since the last time; whether there was anything. A
  /// file that became another, or shorter, is read anew. Throws DataError.
  bool update();

  const std::filesystem::path& path() const noexcept { return path_; }
  const RunLog& log() const noexcept { return records_.log(); }

 private:
  void take(std::string_view bytes);

  std::filesystem::path path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::uint64_t read_ = 0;
  std::string partial_;   ///< of the line that has no end yet
  bool too_long_ = false; ///< that line is
  LogRecords records_;
};

} // namespace cairn::report
