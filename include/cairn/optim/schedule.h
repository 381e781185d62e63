#pragma once

#include <cairn/config/optimizer_config.h>
#include <cairn/optim/parameter_groups.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cairn::optim {

/// Values of the parameter groups as a function of progress. A schedule holds
/// no state: a checkpoint keeps the progress, which is the argument of at().
class Schedule {
 public:
  virtual ~Schedule();
  /// Gives a patch for each group, for the update that follows `done`.
  /// DeepSpeed's schedules count completed (not skipped) updates, Megatron's
  /// consumed samples.
  virtual std::vector<GroupValuesPatch> at(std::int64_t done) const = 0;

 protected:
  Schedule() = default;
  Schedule(const Schedule&) = default;
  Schedule& operator=(const Schedule&) = default;
};

/// The schedule of DeepSpeed's `scheduler` section, for an optimizer whose
/// groups have these learning rates. Throws ConfigError.
std::unique_ptr<Schedule> make_schedule(
    const config::SchedulerConfig& config,
    std::span<const double> group_lrs);

} // namespace cairn::optim
