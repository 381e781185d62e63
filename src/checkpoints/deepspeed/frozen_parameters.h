#pragma once

#include "checkpoints/deepspeed/rank_files.h"

namespace cairn::checkpoints::deepspeed {

/// Frozen parameters of stage 3, of which every rank has a flat fragment.
NamedTensors frozen_parameters(const RankFiles& files);

} // namespace cairn::checkpoints::deepspeed
