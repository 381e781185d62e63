#pragma once

#include "plan/stage_shares.h"

#include <cairn/plan/estimate.h>

#include <vector>

namespace cairn::plan {

/// Memory of a rank on a stage, in its tiers. `live`: micro batches that are
/// live in each of the stage's parts at once.
struct StageMemory {
  MemoryParts device;
  double host = 0; ///< of the rank
  double nvme = 0;
};

/// `exact` asks zero::Layout for the padding of shards, which takes longer.
StageMemory stage_memory(
    const Training& training,
    const RunLayout& layout,
    const Gpu& gpu,
    const std::vector<const PartShare*>& parts,
    const std::vector<int>& live,
    bool exact);

} // namespace cairn::plan
