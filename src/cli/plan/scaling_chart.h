#pragma once

#include "cli/plan/plan_request.h"
#include "plan/internal/what_if.h"

#include <string>
#include <vector>

namespace cairn::cli {

/// Throughput over the number of GPUs as a table.
std::string scaling_table(
    const std::vector<plan::ScalingPoint>& points,
    const PlanRequest& request);

/// The same as curves, in an SVG that stands alone: with the same batch, with a
/// batch that grows with the GPUs, that less failures and checkpoints where
/// they were asked for, and in proportion to the GPUs.
std::string scaling_chart(
    const std::vector<plan::ScalingPoint>& points,
    const PlanRequest& request);

} // namespace cairn::cli
