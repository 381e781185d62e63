#pragma once

#include "report/log_records.h"

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace cairn::report {

/// Reads the log of a run, also while it is being written. An unfinished line
/// at its end is kept until the rest arrives.
class LogReader {
 public:
  explicit LogReader(std::filesystem::path path) : path_(std::move(path)) {}

  /// Reads what was added since the last call; true when there was something. A
  /// file that was replaced or became shorter is read from the start. Throws
  /// DataError.
  bool update();

  const std::filesystem::path& path() const noexcept { return path_; }
  const RunLog& log() const noexcept { return records_.log(); }

 private:
  void take(std::string_view bytes);

  std::filesystem::path path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::uint64_t read_ = 0;
  std::string partial_;   ///< the unfinished last line
  bool too_long_ = false; ///< that line is too long
  LogRecords records_;
};

} // namespace cairn::report
