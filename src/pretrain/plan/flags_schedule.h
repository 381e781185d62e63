#pragma once

#include "pretrain/plan/run_plan.h"

#include <cairn/config/config.h>
#include <cairn/optim/schedule.h>

#include <memory>

namespace cairn::pretrain {

/// Megatron's schedule as the flags describe it, for the groups of
/// no_decay_groups(); it counts samples. None if the JSON has a schedule.
/// Throws ConfigError.
std::shared_ptr<const optim::Schedule> flags_schedule(
    const config::Config& config);
/// The schedule for samples of the plan's lengths: if the flags count tokens,
/// it follows tokens.
std::shared_ptr<const optim::Schedule> flags_schedule(
    const config::Config& config,
    const RunPlan& plan);

} // namespace cairn::pretrain
