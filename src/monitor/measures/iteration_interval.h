#pragma once

#include "monitor/measures/work_done.h"

#include <cairn/monitor/run_values.h>

#include <cstdint>
#include <vector>

namespace cairn::monitor {

/// Adds up iterations from one log line to the next.
class IterationInterval {
 public:
  void add(const IterationValues& values);

  /// The last values, but with losses, times and counts of the whole interval.
  /// Losses of skipped iterations do not count; if all iterations were skipped,
  /// there are no losses.
  IterationValues values() const;
  const WorkDone& work() const noexcept { return work_; }

 private:
  IterationValues last_{};
  WorkDone work_{};
  std::int64_t iterations_ = 0;
  std::int64_t skipped_ = 0;
  std::int64_t nan_ = 0;
  std::vector<NamedValue> loss_sums_{}; ///< over iterations not skipped
  std::vector<NamedValue> timer_sums_{};
};

} // namespace cairn::monitor
