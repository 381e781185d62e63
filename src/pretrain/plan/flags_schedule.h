#pragma once

#include "pretrain/plan/run_plan.h"

#include <cairn/config/config.h>
#include <cairn/optim/schedule.h>

#include <memory>

namespace cairn::pretrain {

/// Megatron's schedule as the flags describe it, for groups as
/// no_decay_groups() has them; it counts samples. None where the JSON has one.
/// Throws ConfigError.
std::shared_ptr<const optim::Schedule> flags_schedule(
    const config::Config& config);
/// The same for samples as long as the plan has them: where lengths are in
/// tokens, it follows those.
std::shared_ptr<const optim::Schedule> flags_schedule(
    const config::Config& config,
    const RunPlan& plan);

} // namespace cairn::pretrain
