#pragma once

#include "report/run_log.h"

#include <memory>
#include <string_view>

namespace cairn::report {

/// Takes the lines of a log one by one. They may be anything: what is no record
/// is counted and left out, and no line can make it hold more than a few
/// megabytes.
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

/// Whether the line is a record of such a log.
bool is_log_record(std::string_view line);

} // namespace cairn::report
