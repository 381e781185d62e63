#pragma once

#include "pipeline/internal/timeline.h"
#include "plan/planned_run.h"
#include "plan/stage_shares.h"

#include <vector>

namespace cairn::plan {

/// A part of the model: what its passes over a micro batch take, and where the
/// time goes.
struct PartTime {
  PieceTime compute;
  ComputeTime again; ///< what backward computes again
  double tensor_forward = 0;
  double tensor_backward = 0;
  double experts = 0;    ///< messages of both passes
  double gathers = 0;    ///< exposed, of both passes
  double reductions = 0; ///< likewise, if every micro batch has them
  pipeline::PartCosts cost;
  double backward() const { return cost.backward + cost.weights; }
  double forward_compute() const { return compute.forward.total(); }
  double backward_compute() const {
    return compute.backward.total() + again.total();
  }
};

PartTime part_time(const PlannedRun& run, const PartShare& share);

/// Seconds of the messages between two stages of a pipeline, a micro batch.
double message_seconds(const PlannedRun& run);

/// Makes the GPUs of the busiest stage compute `factor` times as long, since
/// they wait for the slow one. Returns the seconds that this adds to the
/// stage's passes of one micro batch.
double slow_down(
    const PlannedRun& run,
    double factor,
    const std::vector<PartTime>& parts,
    std::vector<pipeline::PartCosts>& costs);

/// Seconds to sum the gradients of a part once.
double reduction_seconds(const PlannedRun& run, const PartShare& share);

} // namespace cairn::plan
