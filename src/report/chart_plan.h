#pragma once

#include "report/run_log.h"

#include <string>
#include <string_view>
#include <vector>

namespace cairn::report {

/// One run on a page.
struct Run {
  std::string name;
  std::string path;
  RunLog log;
};

enum class Unit { number, count, bytes, milliseconds, share, flops };
std::string_view name_of(Unit unit);

/// One chart: the curves it shows, for all runs, and how it shows them.
struct Chart {
  std::string section; ///< "Learning", "Speed", …
  std::string title;
  Unit unit = Unit::number;
  bool logarithmic = false; ///< initially; the reader may change it
  bool noisy = false;       ///< smoothing helps
  bool wide = false;
  std::vector<std::string> curves{}; ///< the first is drawn as a line
  std::vector<std::string> labels{}; ///< of the curves; "" shows only the run

  bool operator==(const Chart&) const = default;
};

/// The charts for the values that the runs have, in reading order. A value that
/// is not known by name gets a chart of its own.
std::vector<Chart> chart_plan(const std::vector<Run>& runs);

} // namespace cairn::report
