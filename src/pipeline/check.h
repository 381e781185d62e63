#pragma once

#include <cairn/pipeline/schedule.h>

#include <vector>

namespace cairn::pipeline {

/// The cost of a schedule for each stage.
struct ScheduleLoad {
  /// Most micro batches at once whose forward pass is done and whose last pass
  /// is not: backward, or the gradients of weights where those are a pass of
  /// their own. A micro batch counts once in each chunk.
  std::vector<int> live_activations;
  /// Most buffers in use at once.
  std::vector<int> buffers;
};

/// Goes through a schedule as if every message blocked both its ends. Throws
/// UsageError naming stage and instruction if a stage uses missing tensors,
/// does something twice or never, takes a buffer in use, or if stages wait for
/// each other for ever.
ScheduleLoad check(const Schedule& schedule);

} // namespace cairn::pipeline
