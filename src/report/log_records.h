#pragma once

#include "report/run_log.h"

#include <memory>
#include <string_view>

namespace cairn::report {

/// Takes the lines of a log one by one. Lines may be anything: a line that is
/// no record is counted and ignored, and no line can make the memory grow
/// beyond a few megabytes.
class LogRecords {
 public:
  LogRecords();
  ~LogRecords();
  LogRecords(LogRecords&&) noexcept;
  LogRecords& operator=(LogRecords&&) noexcept;

  void add(std::string_view line);
  void add_broken() { ++log_.broken_lines; }
  const RunLog& log() const noexcept { return log_; }

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
  RunLog log_;
};

/// True when the line is a record of such a log.
bool is_log_record(std::string_view line);

} // namespace cairn::report
