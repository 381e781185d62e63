#pragma once

#include <cairn/config/config.h>
#include <cairn/optim/megatron_schedule.h>

#include <optional>
#include <string>

namespace cairn::pretrain {

/// The schedule that a checkpoint was trained with, as far as it says: Megatron
/// and `cairn pretrain` keep its learning rates and lengths.
struct StoredSchedule {
  optim::MegatronScheduleOptions options;
  /// The values that differ from the flags': "max_lr 0.001 there, 0.0005 here".
  std::string differences;
};

/// The schedule in the checkpoint that --load names, over the flags' one; none
/// if the run does not go on with a checkpoint's schedule, or it does not say.
std::optional<StoredSchedule> stored_schedule(
    const config::Config& config,
    const optim::MegatronScheduleOptions& by_flags);

} // namespace cairn::pretrain
