#include <cairn/base/error.h>
#include <cairn/optim/deepspeed_schedules.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "optim/iteration_schedule.h"

namespace cairn::optim {
namespace {

/// The warm-up, from 0 to 1. A length of one step is taken as two, since one
/// cannot divide by the logarithm of one.
class WarmupCurve {
 public:
  explicit WarmupCurve(const Warmup& warmup)
      : steps_(std::max<std::int64_t>(2, warmup.steps)), shape_(warmup.shape) {
    if (warmup.steps <= 0) {
      throw ConfigError(
          {.what = "the warm-up must be at least one step long",
           .where = "scheduler.params.warmup_num_steps",
           .values = fmt::format("{}", warmup.steps)});
    }
  }

  std::int64_t steps() const { return steps_; }
  bool ended(std::int64_t iteration) const { return iteration >= steps_; }
  double at(std::int64_t iteration) const {
    const auto steps = static_cast<double>(steps_);
    return shape_ == WarmupShape::linear
        ? static_cast<double>(iteration) / steps
        : 1.0 / std::log(steps) * std::log(static_cast<double>(iteration + 1));
  }

 private:
  std::int64_t steps_;
  WarmupShape shape_;
};

/// WarmupLR; with `total_steps` it is WarmupDecayLR.
class WarmupLr final : public IterationSchedule {
 public:
  WarmupLr(
      std::vector<double> min_lr,
      std::vector<double> max_lr,
      const Warmup& warmup,
      std::optional<std::int64_t> total_steps,
      std::int64_t last_batch_iteration)
      : IterationSchedule(min_lr.size(), last_batch_iteration),
        min_lr_(std::move(min_lr)),
        max_lr_(std::move(max_lr)),
        warmup_(warmup),
        total_steps_(total_steps) {}

 private:
  double part(std::int64_t iteration) const {
    if (!warmup_.ended(iteration)) {
      return warmup_.at(iteration);
    }
    if (!total_steps_) {
      return 1;
    }
    const auto left = static_cast<double>(*total_steps_ - iteration);
    const auto length = static_cast<double>(*total_steps_ - warmup_.steps());
    return std::max(0.0, left / std::max(1.0, length));
  }

  GroupValuesPatch values(std::size_t group, std::int64_t iteration)
      const override {
    const double low = min_lr_[group];
    if (iteration < 0) {
      return {.lr = low};
    }
    return {.lr = low + (max_lr_[group] - low) * part(iteration)};
  }

  std::vector<double> min_lr_;
  std::vector<double> max_lr_;
  WarmupCurve warmup_;
  std::optional<std::int64_t> total_steps_;
};

class WarmupCosineLr final : public IterationSchedule {
 public:
  WarmupCosineLr(
      const WarmupCosineLrOptions& options,
      std::span<const double> group_lrs)
      : IterationSchedule(group_lrs.size(), options.last_batch_iteration),
        lrs_(group_lrs.begin(), group_lrs.end()),
        warmup_(options.warmup),
        options_(options) {}

 private:
  double part(std::int64_t iteration) const {
    if (iteration < 0) {
      return 0;
    }
    if (!warmup_.ended(iteration)) {
      const double low = options_.warmup_min_ratio;
      return low + warmup_.at(iteration) * (1 - low);
    }
    const std::int64_t done = iteration - warmup_.steps() + 1;
    const std::int64_t length =
        std::max<std::int64_t>(1, options_.total_steps - warmup_.steps());
    const double progress =
        std::min(1.0, static_cast<double>(done) / static_cast<double>(length));
    const double height = (1 + std::cos(std::numbers::pi * progress)) / 2;
    const double low = options_.cosine_min_ratio;
    return std::max(0.0, low + (1 - low) * height);
  }

  GroupValuesPatch values(std::size_t group, std::int64_t iteration)
      const override {
    return {.lr = lrs_[group] * part(iteration)};
  }

  std::vector<double> lrs_;
  WarmupCurve warmup_;
  WarmupCosineLrOptions options_;
};

} // namespace

std::unique_ptr<Schedule> warmup_lr(
    const WarmupLrOptions& options,
    std::span<const double> group_lrs) {
  const PerGroup own(group_lrs.begin(), group_lrs.end());
  const PerGroup& max_lr = options.max_lr.empty() ? own : options.max_lr;
  return std::make_unique<WarmupLr>(
      spread(options.min_lr, group_lrs.size(), "warmup_min_lr"),
      spread(max_lr, group_lrs.size(), "warmup_max_lr"),
      options.warmup,
      std::nullopt,
      options.last_batch_iteration);
}

std::unique_ptr<Schedule> warmup_decay_lr(
    const WarmupDecayLrOptions& options,
    std::span<const double> group_lrs) {
  return std::make_unique<WarmupLr>(
      spread(options.min_lr, group_lrs.size(), "warmup_min_lr"),
      spread(options.max_lr, group_lrs.size(), "warmup_max_lr"),
      options.warmup,
      options.total_steps,
      options.last_batch_iteration);
}

std::unique_ptr<Schedule> warmup_cosine_lr(
    const WarmupCosineLrOptions& options,
    std::span<const double> group_lrs) {
  return std::make_unique<WarmupCosineLr>(options, group_lrs);
}

} // namespace cairn::optim
