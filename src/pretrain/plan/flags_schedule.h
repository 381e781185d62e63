#pragma once

#include "pretrain/plan/run_plan.h"

#include <cairn/config/config.h>
#include <cairn/engine/saving.h>
#include <cairn/optim/schedule.h>

#include <memory>
#include <string>

namespace cairn::pretrain {

/// Megatron's schedule as the flags describe it, for the groups of
/// parameter_groups(); it counts samples. None if the JSON has a schedule.
/// Throws ConfigError.
std::shared_ptr<const optim::Schedule> flags_schedule(
    const config::Config& config);
/// The schedule for samples of the plan's lengths: if the flags count tokens,
/// it follows tokens.
std::shared_ptr<const optim::Schedule> flags_schedule(
    const config::Config& config,
    const RunPlan& plan);

/// The run's schedule as Megatron's checkpoints describe it: max_lr,
/// lr_warmup_steps, …, in samples. Empty if the JSON has a schedule.
ClientState schedule_description(
    const config::Config& config,
    const RunPlan& plan);

/// Decides between the schedule of the flags and that of the checkpoint that
/// --load names, and returns a line about their differences; empty if there is
/// nothing to say. Throws ConfigError if the checkpoint's is asked for where
/// the flags' one is not Megatron's.
std::string settle_schedule(const config::Config& config, RunPlan& plan);

} // namespace cairn::pretrain
