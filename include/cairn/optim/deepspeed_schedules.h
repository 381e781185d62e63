#pragma once

#include <cairn/optim/schedule.h>

#include <optional>
#include <span>
#include <vector>

namespace cairn::optim {

/// A number for all groups, or one for each.
using PerGroup = std::vector<double>;

enum class WarmupShape { log, linear };

struct Warmup {
  std::int64_t steps = 1000;
  WarmupShape shape = WarmupShape::log;
};

// Each of these schedules is made for as many groups as `group_lrs` has. With
// `last_batch_iteration` k, at(n) equals at(k + 1 + n) without it, and at(0)
// leaves the groups as they are. All functions throw ConfigError.

struct WarmupLrOptions {
  PerGroup min_lr{0.0};
  PerGroup max_lr{}; ///< empty: the groups' own learning rates
  Warmup warmup{};
  std::int64_t last_batch_iteration = -1;
};
/// Rises from min_lr to max_lr and stays there.
std::unique_ptr<Schedule> warmup_lr(
    const WarmupLrOptions& options,
    std::span<const double> group_lrs);

struct WarmupDecayLrOptions {
  std::int64_t total_steps = 0;
  PerGroup min_lr{0.0};
  PerGroup max_lr{0.001};
  Warmup warmup{};
  std::int64_t last_batch_iteration = -1;
};
/// Rises from min_lr to max_lr, then falls in a line to min_lr at
/// `total_steps`.
std::unique_ptr<Schedule> warmup_decay_lr(
    const WarmupDecayLrOptions& options,
    std::span<const double> group_lrs);

struct WarmupCosineLrOptions {
  std::int64_t total_steps = 0;
  double warmup_min_ratio = 0;
  double cosine_min_ratio = 0.0001;
  Warmup warmup{};
  std::int64_t last_batch_iteration = -1;
};
/// Rises from a part of the groups' learning rates to all of them, then falls
/// in half a cosine to another part at `total_steps`.
std::unique_ptr<Schedule> warmup_cosine_lr(
    const WarmupCosineLrOptions& options,
    std::span<const double> group_lrs);

struct OneCycleOptions {
  PerGroup min_lr{};
  PerGroup max_lr{};
  double decay_lr_rate = 0;
  std::int64_t first_steps = 2000;
  std::optional<std::int64_t> second_steps{}; ///< unset: as `first_steps`
  std::int64_t first_stairs = 0;              ///< 0: smooth
  std::optional<std::int64_t> second_stairs{};
  std::int64_t decay_steps = 0; ///< 0: no decay
  bool cycle_momentum = true;
  PerGroup min_momentum{0.8};
  PerGroup max_momentum{0.9};
  double decay_momentum_rate = 0;
  std::int64_t last_batch_iteration = -1;
};
/// Rises and falls once, then decays. Momentum (the first beta) goes the other
/// way.
std::unique_ptr<Schedule> one_cycle(
    const OneCycleOptions& options,
    std::span<const double> group_lrs);

struct LrRangeTestOptions {
  PerGroup min_lr{0.001};
  std::int64_t step_size = 2000;
  double step_rate = 1;
  bool staircase = false;
  std::int64_t last_batch_iteration = -1;
};
/// Rises without end, to see which learning rate breaks the training.
std::unique_ptr<Schedule> lr_range_test(
    const LrRangeTestOptions& options,
    std::span<const double> group_lrs);

} // namespace cairn::optim
