#pragma once

#include "report/curve.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::report {

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

/// A run starts, or resumes after iteration `step`.
struct StartRecord {
  std::int64_t step = 0;
  std::int64_t reached = 0;     ///< last step in the log before
  std::optional<double> time{}; ///< seconds since 1970
  std::optional<std::int64_t> ranks{};
  std::string host{};
};

struct EndRecord {
  std::int64_t step = 0;
  std::optional<double> time{};
  std::string reason{};
};

struct MemoryRecord {
  std::int64_t step = 0;
  std::string device{};
  std::vector<std::pair<std::string, double>> bytes{};
};

/// What the planner said before the run.
struct EstimateRecord {
  std::string machine{};
  std::optional<double> iteration_seconds{};
  std::vector<std::pair<std::string, double>> bytes{};
};

/// The content of a run's log so far. Where the run went back to an earlier
/// step, only what it did afterwards counts.
struct RunLog {
  std::vector<StartRecord> starts{};
  std::int64_t restarts = 0; ///< including those beyond the limit on `starts`
  std::optional<EndRecord> end{};
  std::optional<MemoryRecord> memory{};
  std::optional<EstimateRecord> estimate{}; ///< of the last start
  // Values of the last start:
  std::string model{};
  std::optional<std::int64_t> iterations{};
  NamedTexts versions{};
  NamedTexts given{};
  std::string configuration{}; ///< JSON, or empty

  std::vector<std::pair<std::string, Curve>> curves{}; ///< by appearance
  std::int64_t last_step = 0;
  std::optional<double> first_time{};
  std::optional<double> last_time{};
  std::int64_t records = 0;        ///< lines that are records
  std::int64_t broken_lines = 0;   ///< lines that are no records
  std::int64_t ignored_values = 0; ///< values beyond the limit on curves

  const Curve* curve(std::string_view name) const;
};

} // namespace cairn::report
