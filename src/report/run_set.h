#pragma once

#include "report/chart_plan.h"
#include "report/find_logs.h"
#include "report/log_reader.h"

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::report {

/// The runs of some places, followed while they go on.
class RunSet {
 public:
  explicit RunSet(std::vector<std::filesystem::path> places)
      : places_(std::move(places)) {}

  /// Looks for new logs and new lines; whether there was anything. Throws
  /// DataError.
  bool update();

  /// Those that have records.
  std::vector<Run> runs() const;
  /// The DataError of a set that has none.
  [[noreturn]] void refuse_empty() const;
  /// "quickstart", or "3 runs"
  std::string title() const;

 private:
  std::vector<std::filesystem::path> places_;
  std::vector<FoundLog> found_;
  std::vector<LogReader> readers_;
  bool changed_ = false; ///< kept where one of them throws
};

} // namespace cairn::report
