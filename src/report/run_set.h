#pragma once

#include "report/chart_plan.h"
#include "report/find_logs.h"
#include "report/log_reader.h"

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::report {

/// The runs at some places, followed while they go on.
class RunSet {
 public:
  explicit RunSet(std::vector<std::filesystem::path> places)
      : places_(std::move(places)) {}

  /// Looks for new logs and new lines; true when there were any. Throws
  /// DataError.
  bool update();

  /// The runs that have records.
  std::vector<Run> runs() const;
  /// Throws the DataError for a set without runs.
  [[noreturn]] void refuse_empty() const;
  /// "quickstart", or "3 runs"
  std::string title() const;

 private:
  std::vector<std::filesystem::path> places_;
  std::vector<FoundLog> found_;
  std::vector<LogReader> readers_;
  bool changed_ = false; ///< kept if a reader throws
};

} // namespace cairn::report
