#pragma once

#include <cairn/config/flags.h>
#include <cairn/optim/schedule.h>

#include <optional>
#include <vector>

namespace cairn::optim {

using config::LrDecayStyle;
using config::WeightDecayStyle;
using config::WsdDecayStyle;

/// What one group has otherwise than the rest.
struct MegatronGroup {
  std::optional<double> max_lr{};
  std::optional<double> min_lr{};
  double weight_decay_multiplier = 1; ///< 0 for biases and norms
};

/// Megatron's scheduler of learning rate and weight decay. All lengths are in
/// samples: iterations times the global batch size.
struct MegatronScheduleOptions {
  double init_lr = 0; ///< where the warm-up starts
  double max_lr = 0;
  double min_lr = 0;
  double warmup_samples = 0; ///< a fraction of the decay need not be whole
  std::int64_t decay_samples = 0;
  LrDecayStyle decay_style = LrDecayStyle::linear;
  /// With LrDecayStyle::wsd: how long before the end the decay starts, and how.
  std::optional<std::int64_t> wsd_decay_samples{};
  WsdDecayStyle wsd_decay_style = WsdDecayStyle::exponential;
  double start_weight_decay = 0;
  double end_weight_decay = 0;
  std::int64_t weight_decay_samples = 0; ///< until it reaches its end
  WeightDecayStyle weight_decay_style = WeightDecayStyle::constant;
};

/// From Megatron's flags, `global_batch_size` being the one after any ramp-up.
/// Lengths in tokens count whole sequences. Throws ConfigError.
MegatronScheduleOptions megatron_schedule_options(
    const config::Flags& flags,
    std::int64_t global_batch_size);

/// `at` takes consumed samples. Throws ConfigError.
std::unique_ptr<Schedule> megatron_schedule(
    const MegatronScheduleOptions& options,
    std::vector<MegatronGroup> groups);

} // namespace cairn::optim
