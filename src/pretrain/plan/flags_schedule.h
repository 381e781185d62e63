#pragma once

#include "pretrain/plan/run_plan.h"

#include <cairn/config/config.h>
#include <cairn/engine/saving.h>
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

/// The flags' schedule as Megatron's checkpoints describe it: max_lr,
/// lr_warmup_steps, …, in samples. Empty if the JSON has a schedule.
ClientState schedule_description(const config::Config& config);

} // namespace cairn::pretrain
