#pragma once

#include <cairn/optim/parameter_groups.h>
#include <cairn/optim/schedule.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::inline engine {

/// A schedule of learning rates and how far it has come. Without a schedule the
/// values of the parameter groups stay as they are.
class RateSchedule {
 public:
  /// The argument of the schedule: updates so far, or the samples they took.
  enum class Counts { updates, samples };

  RateSchedule(std::shared_ptr<const optim::Schedule> schedule, Counts counts)
      : schedule_(std::move(schedule)), counts_(counts) {}

  /// Counts an update of so many samples.
  void advance(std::int64_t samples) {
    steps_ += counts_ == Counts::samples ? samples : 1;
  }
  /// Writes the values of the next update.
  void apply_to(std::vector<optim::GroupValues>& groups) const;

  Counts counts() const { return counts_; }
  std::int64_t steps() const { return steps_; } ///< updates or samples
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  std::shared_ptr<const optim::Schedule> schedule_; ///< may be null
  Counts counts_;
  std::int64_t steps_ = 0;
};

} // namespace cairn::engine
