#pragma once

#include <cairn/config/config.h>
#include <cairn/optim/schedule.h>

#include <memory>

namespace cairn::pretrain {

/// Megatron's schedule as the flags describe it, for groups as
/// no_decay_groups() has them; it counts samples. None where the JSON has one.
/// Throws ConfigError.
std::shared_ptr<const optim::Schedule> flags_schedule(
    const config::Config& config);

} // namespace cairn::pretrain
