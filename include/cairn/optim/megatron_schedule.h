#pragma once

#include <cairn/config/flags.h>
#include <cairn/optim/schedule.h>

#include <optional>
#include <vector>

namespace cairn::optim {

using config::LrDecayStyle;
using config::WeightDecayStyle;
using config::WsdDecayStyle;

/// Values in which one group differs from the rest.
struct MegatronGroup {
  std::optional<double> max_lr{};
  std::optional<double> min_lr{};
  double weight_decay_multiplier = 1; ///< 0 for biases and norms
};

/// Megatron's scheduler of learning rate and weight decay. All lengths are in
/// samples: iterations times the global batch size.
struct MegatronScheduleOptions {
  double init_lr = 0; ///< learning rate at the start of the warm-up
  double max_lr = 0;
  double min_lr = 0;
  /// Length of the warm-up. Not always whole: it may be a fraction of the
  /// decay.
  double warmup_samples = 0;
  std::int64_t decay_samples = 0;
  LrDecayStyle decay_style = LrDecayStyle::linear;
  /// Samples before the end at which the decay starts, with LrDecayStyle::wsd.
  std::optional<std::int64_t> wsd_decay_samples{};
  /// Shape of that decay.
  WsdDecayStyle wsd_decay_style = WsdDecayStyle::exponential;
  double start_weight_decay = 0;
  double end_weight_decay = 0;
  /// Samples until the weight decay reaches `end_weight_decay`.
  std::int64_t weight_decay_samples = 0;
  WeightDecayStyle weight_decay_style = WeightDecayStyle::constant;
};

/// Options from Megatron's flags; `global_batch_size` is the one after any
/// ramp-up. Lengths in tokens count whole sequences. Throws ConfigError.
MegatronScheduleOptions megatron_schedule_options(
    const config::Flags& flags,
    std::int64_t global_batch_size);

/// Megatron's schedule, whose at() takes consumed samples. Throws ConfigError.
std::unique_ptr<Schedule> megatron_schedule(
    const MegatronScheduleOptions& options,
    std::vector<MegatronGroup> groups);

} // namespace cairn::optim
