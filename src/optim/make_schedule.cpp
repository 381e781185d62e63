#include <cairn/base/error.h>
#include <cairn/optim/deepspeed_schedules.h>
#include <fmt/format.h>

#include <string>

namespace cairn::optim {
namespace {

using config::SchedulerParams;

template <class T>
void take(T& option, const std::optional<T>& given) {
  option = given.value_or(option);
}

void take(PerGroup& option, const std::optional<double>& given) {
  if (given) {
    option.assign(1, *given);
  }
}

template <class T>
void take(std::optional<T>& option, const std::optional<T>& given) {
  option = given;
}

void require(bool present, std::string_view key) {
  if (!present) {
    throw ConfigError(
        {.what = "this value is required",
         .where = fmt::format("scheduler.params.{}", key)});
  }
}

Warmup warmup_of(const SchedulerParams& params) {
  Warmup warmup;
  take(warmup.steps, params.warmup_num_steps);
  if (params.warmup_type == "linear") {
    // Any other value means log, as in DeepSpeed.
    warmup.shape = WarmupShape::linear;
  }
  return warmup;
}

/// Fills in the options of WarmupLR and WarmupDecayLR.
template <typename Options>
requires requires(Options options) {
  options.warmup;
  options.max_lr;
}
void fill(Options& options, const SchedulerParams& params) {
  take(options.min_lr, params.warmup_min_lr);
  take(options.max_lr, params.warmup_max_lr);
}

void fill(WarmupCosineLrOptions& options, const SchedulerParams& params) {
  take(options.warmup_min_ratio, params.warmup_min_ratio);
  take(options.cosine_min_ratio, params.cos_min_ratio);
}

void fill(OneCycleOptions& options, const SchedulerParams& params) {
  take(options.min_lr, params.cycle_min_lr);
  take(options.max_lr, params.cycle_max_lr);
  take(options.decay_lr_rate, params.decay_lr_rate);
  take(options.first_steps, params.cycle_first_step_size);
  take(options.second_steps, params.cycle_second_step_size);
  take(options.first_stairs, params.cycle_first_stair_count);
  take(options.second_stairs, params.cycle_second_stair_count);
  take(options.decay_steps, params.decay_step_size);
  take(options.cycle_momentum, params.cycle_momentum);
  take(options.min_momentum, params.cycle_min_mom);
  take(options.max_momentum, params.cycle_max_mom);
  take(options.decay_momentum_rate, params.decay_mom_rate);
}

void fill(LrRangeTestOptions& options, const SchedulerParams& params) {
  take(options.min_lr, params.lr_range_test_min_lr);
  take(options.step_size, params.lr_range_test_step_size);
  take(options.step_rate, params.lr_range_test_step_rate);
  take(options.staircase, params.lr_range_test_staircase);
}

template <typename Options>
using Maker =
    std::unique_ptr<Schedule>(const Options&, std::span<const double>);

/// Makes a schedule. Options that several schedules have are filled in here.
template <typename Options, Maker<Options> maker>
std::unique_ptr<Schedule> make(
    const SchedulerParams& params,
    std::span<const double> group_lrs) {
  Options options;
  fill(options, params);
  take(options.last_batch_iteration, params.last_batch_iteration);
  if constexpr (requires { options.warmup; }) {
    options.warmup = warmup_of(params);
  }
  if constexpr (requires { options.total_steps; }) {
    require(params.total_num_steps.has_value(), "total_num_steps");
    take(options.total_steps, params.total_num_steps);
  }
  return maker(options, group_lrs);
}

struct ScheduleKind {
  std::string_view name;
  std::unique_ptr<Schedule> (
      *make)(const SchedulerParams&, std::span<const double>);
};

constexpr ScheduleKind schedule_kinds[] = {
    {"WarmupLR", make<WarmupLrOptions, warmup_lr>},
    {"WarmupDecayLR", make<WarmupDecayLrOptions, warmup_decay_lr>},
    {"WarmupCosineLR", make<WarmupCosineLrOptions, warmup_cosine_lr>},
    {"OneCycle", make<OneCycleOptions, one_cycle>},
    {"LRRangeTest", make<LrRangeTestOptions, lr_range_test>},
};

} // namespace

std::unique_ptr<Schedule> make_schedule(
    const config::SchedulerConfig& config,
    std::span<const double> group_lrs) {
  const std::string type = config.type.value_or("");
  std::string known;
  for (const ScheduleKind& kind : schedule_kinds) {
    if (type == kind.name) {
      return kind.make(config.params.value_or(SchedulerParams{}), group_lrs);
    }
    known += known.empty() ? "" : ", ";
    known += kind.name;
  }
  throw ConfigError(
      {.what = fmt::format("unknown schedule \"{}\"", type),
       .where = "scheduler.type",
       .remedy = fmt::format("one of {}", known)});
}

} // namespace cairn::optim
