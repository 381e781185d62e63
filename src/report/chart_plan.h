#pragma once

#include "report/run_log.h"

#include <string>
#include <string_view>
#include <vector>

namespace cairn::report {

/// One run of a page.
struct Run {
  std::string name;
  std::string path;
  RunLog log;
};

enum class Unit { number, count, bytes, milliseconds, share, flops };
std::string_view name_of(Unit unit);

/// One chart: which curves it shows, of all runs, and how.
struct Chart {
  std::string section; ///< "Learning", "Speed", …
  std::string title;
  Unit unit = Unit::number;
  bool logarithmic = false; ///< at first; the reader may choose
  bool noisy = false;       ///< worth smoothing
  bool wide = false;
  std::vector<std::string> curves{}; ///< the first is drawn as a line
  std::vector<std::string> labels{}; ///< of the curves; "" is the run alone

  bool operator==(const Chart&) const = default;
};

/// The charts that show what the runs have, in the order to read them. What
/// is not known by name gets a chart of its own.
std::vector<Chart> chart_plan(const std::vector<Run>& runs);

} // namespace cairn::report
