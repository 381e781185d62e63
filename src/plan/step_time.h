#pragma once

#include "plan/part_time.h"

#include <cstddef>
#include <vector>

namespace cairn::plan {

/// Seconds of what follows the last backward pass on a stage.
struct StepTime {
  double gradients = 0;
  double gathers = 0;
  double optimizer = 0;
  double offload = 0;
  double total() const { return gradients + gathers + optimizer + offload; }
};

/// `shares` and `parts` are those of all stages.
StepTime step_time(
    const PlannedRun& run,
    const std::vector<PartShare>& shares,
    const std::vector<PartTime>& parts,
    std::size_t stage);

} // namespace cairn::plan
