#pragma once

#include "pretrain/plan/run_plan.h"

#include <cairn/config/config.h>

namespace cairn::pretrain {

/// Throws ConfigError for a curriculum that this run cannot follow.
void check_curriculum(const config::Config& config, const RunPlan& plan);

} // namespace cairn::pretrain
