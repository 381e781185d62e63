#include <cairn/base/error.h>
#include <cairn/optim/deepspeed_schedules.h>
#include <fmt/format.h>

#include <cmath>

#include "optim/iteration_schedule.h"

namespace cairn::optim {
namespace {

void require(bool holds, std::string_view key, std::int64_t value) {
  if (!holds) {
    throw ConfigError(
        {.what = "the length of a half cycle must be positive",
         .where = fmt::format("scheduler.params.{}", key),
         .values = fmt::format("{}", value)});
  }
}

class OneCycle final : public IterationSchedule {
 public:
  OneCycle(const OneCycleOptions& options, std::size_t groups)
      : IterationSchedule(groups, options.last_batch_iteration),
        options_(options),
        min_lr_(spread(options.min_lr, groups, "cycle_min_lr")),
        max_lr_(spread(options.max_lr, groups, "cycle_max_lr")),
        min_momentum_(spread(options.min_momentum, groups, "cycle_min_mom")),
        max_momentum_(spread(options.max_momentum, groups, "cycle_max_mom")),
        first_(static_cast<double>(options.first_steps)),
        second_(static_cast<double>(
            options.second_steps.value_or(options.first_steps))),
        total_(first_ + second_) {
    require(
        options.first_steps > 0,
        "cycle_first_step_size",
        options.first_steps);
    require(
        options.second_steps.value_or(1) >= 0,
        "cycle_second_step_size",
        options.second_steps.value_or(1));
  }

 private:
  GroupValuesPatch values(std::size_t group, std::int64_t iteration)
      const override {
    GroupValuesPatch patch;
    patch.lr = lr(group, iteration);
    if (options_.cycle_momentum) {
      patch.betas = {momentum(group, iteration), 0.99};
    }
    return patch;
  }

  double lr(std::size_t group, std::int64_t iteration) const {
    const double low = min_lr_[group];
    if (in_cycle(iteration)) {
      return low + (max_lr_[group] - low) * height(iteration);
    }
    return low / (1 + options_.decay_lr_rate * intervals_after(iteration));
  }

  double momentum(std::size_t group, std::int64_t iteration) const {
    const double low = min_momentum_[group];
    const double high = max_momentum_[group];
    if (iteration < 0) {
      return low; // DeepSpeed's start, although the cycle begins at `high`
    }
    if (in_cycle(iteration)) {
      return high - (high - low) * height(iteration);
    }
    return high *
        (1 + options_.decay_momentum_rate * intervals_after(iteration));
  }

  bool in_cycle(std::int64_t iteration) const {
    return static_cast<double>(iteration) < total_;
  }

  /// Height of the cycle, from 0 up to 1 and back, in stairs where there are
  /// any.
  double height(std::int64_t iteration) const {
    const auto now = static_cast<double>(iteration + 1);
    const double cycle = std::floor(1 + now / total_);
    const double x = 1. + now / total_ - cycle;
    const double top = first_ / total_;
    const bool rising = x <= top;
    const std::int64_t stairs = rising
        ? options_.first_stairs
        : options_.second_stairs.value_or(options_.first_stairs);
    if (stairs <= 0) {
      return rising ? x / top : (x - 1) / (top - 1);
    }
    const auto count = static_cast<double>(stairs);
    const double inside = std::fmod(now, total_);
    const double position = inside <= first_
        ? inside * count / first_
        : (total_ - inside) * count / second_;
    return std::floor(position) / count;
  }

  double intervals_after(std::int64_t iteration) const {
    if (options_.decay_steps == 0) {
      return 0;
    }
    return (static_cast<double>(iteration) - total_ + 1) /
        static_cast<double>(options_.decay_steps);
  }

  OneCycleOptions options_;
  std::vector<double> min_lr_;
  std::vector<double> max_lr_;
  std::vector<double> min_momentum_;
  std::vector<double> max_momentum_;
  double first_;
  double second_;
  double total_;
};

} // namespace

std::unique_ptr<Schedule> one_cycle(
    const OneCycleOptions& options,
    std::span<const double> group_lrs) {
  return std::make_unique<OneCycle>(options, group_lrs.size());
}

} // namespace cairn::optim
