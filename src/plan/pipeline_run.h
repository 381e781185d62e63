#pragma once

#include "plan/estimator_cache.h"

#include <cairn/pipeline/schedule.h>
#include <cairn/plan/estimate.h>

#include <vector>

namespace cairn::plan {

/// Seconds of the passes of one micro batch through a part of the model.
struct PartCost {
  double forward = 0;
  double backward = 0; ///< with the gradients of the weights
  double weights = 0;  ///< part of `backward` that is for weights
};

/// What running a schedule costs.
struct PipelineRun {
  double length = 0;
  std::vector<double> busy; ///< of each stage
  /// Most micro batches that each part has live when its stage has the most,
  /// by part.
  std::vector<int> live;
  std::vector<std::vector<TimedPass>> stages; ///< if they were asked for
};

/// Runs a schedule as a simulation of events: every stage goes through its
/// instructions in order, and a pass begins when its message has come. `parts`
/// has a cost for part c S + s of the model; `message` is from one part to the
/// next.
PipelineRun run_schedule(
    const pipeline::Schedule& schedule,
    const std::vector<PartCost>& parts,
    double message,
    bool keep_passes);

/// The same for many micro batches, of which only as many are simulated as it
/// takes to reach the steady state; each further group takes as long as the
/// one before. Exact for equal stages.
PipelineRun run_pipeline(
    const RunLayout& layout,
    const std::vector<PartCost>& parts,
    double message,
    bool all_passes,
    EstimatorCache& cache);

} // namespace cairn::plan
