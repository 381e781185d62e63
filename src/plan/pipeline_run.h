#pragma once

#include "pipeline/internal/timeline.h"
#include "plan/estimator_cache.h"

#include <cairn/plan/estimate.h>

#include <vector>

namespace cairn::plan {

/// What running a schedule costs.
struct PipelineRun {
  double length = 0;
  std::vector<double> busy; ///< of each stage
  /// Most micro batches that each part has live when its stage has the most,
  /// by part.
  std::vector<int> live;
  std::vector<std::vector<TimedPass>> stages; ///< if they were asked for
};

/// The pipeline's timeline of a layout. Of many micro batches only as many are
/// simulated as it takes to reach the steady state, unless all passes are asked
/// for; each further group takes as long as the one before. Exact for equal
/// stages.
PipelineRun run_pipeline(
    const RunLayout& layout,
    const std::vector<pipeline::PartCosts>& parts,
    double message,
    bool all_passes,
    EstimatorCache& cache);

} // namespace cairn::plan
