#pragma once

#include <cairn/pipeline/schedule.h>

#include <vector>

namespace cairn::pipeline {

/// What a schedule costs, by stage.
struct ScheduleLoad {
  /// Most micro batches that had their forward pass and wait for backward, or
  /// for the gradients of weights where those are a pass of their own; in each
  /// chunk they count as one.
  std::vector<int> live_activations;
  /// Most buffers in use at once.
  std::vector<int> buffers;
};

/// Goes through a schedule as if every message blocked both its ends, and
/// throws ConfigError naming stage and instruction if a stage uses what is not
/// there, does something twice or never, takes a buffer in use, or if stages
/// wait for each other for ever.
ScheduleLoad check(const Schedule& schedule);

} // namespace cairn::pipeline
