#include <cairn/base/error.h>
#include <cairn/optim/megatron_schedule.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cairn::optim {
namespace {

/// Half a cosine, from 1 at ratio 0 to 0 at ratio 1.
double cosine(double ratio) {
  return 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0);
}

double wsd_height(WsdDecayStyle style, double ratio) {
  switch (style) {
    case WsdDecayStyle::linear:
      return 1.0 - ratio;
    case WsdDecayStyle::cosine:
      return cosine(ratio);
    case WsdDecayStyle::minus_sqrt:
      return 1.0 - std::sqrt(ratio);
    case WsdDecayStyle::exponential:
      break;
  }
  return 2.0 * std::pow(0.5, ratio) - 1.0;
}

class MegatronSchedule final : public Schedule {
 public:
  MegatronSchedule(
      const MegatronScheduleOptions& options,
      std::vector<MegatronGroup> groups)
      : options_(options), groups_(std::move(groups)) {}

  std::vector<GroupValuesPatch> at(std::int64_t done) const override {
    std::vector<GroupValuesPatch> patches;
    for (const MegatronGroup& group : groups_) {
      GroupValuesPatch& patch = patches.emplace_back();
      patch.lr =
          lr(done,
             group.max_lr.value_or(options_.max_lr),
             group.min_lr.value_or(options_.min_lr));
      patch.weight_decay = weight_decay(done) * group.weight_decay_multiplier;
    }
    return patches;
  }

 private:
  double lr(std::int64_t done, double max_lr, double min_lr) const {
    const auto samples = static_cast<double>(done);
    const double warmup = options_.warmup_samples;
    if (warmup > 0 && samples <= warmup) {
      const double rise = max_lr - options_.init_lr;
      return options_.init_lr + rise * samples / warmup;
    }
    if (options_.decay_style == LrDecayStyle::constant) {
      return max_lr;
    }
    if (done > options_.decay_samples) {
      return min_lr;
    }
    if (options_.decay_style == LrDecayStyle::inverse_square_root) {
      const double root = std::sqrt(std::max(warmup, 1.0));
      return std::max(
          min_lr,
          max_lr * root / std::sqrt(std::max(samples, 1.0)));
    }
    return min_lr + height(done) * (max_lr - min_lr);
  }

  /// Height of the curve, from 1 at the end of the warm-up to 0 at the end of
  /// the decay.
  double height(std::int64_t done) const {
    const double warmup = options_.warmup_samples;
    const double ratio = (static_cast<double>(done) - warmup) /
        (static_cast<double>(options_.decay_samples) - warmup);
    if (options_.decay_style == LrDecayStyle::linear) {
      return 1.0 - ratio;
    }
    if (options_.decay_style == LrDecayStyle::cosine) {
      return cosine(ratio);
    }
    const std::int64_t length = *options_.wsd_decay_samples;
    const std::int64_t inside = done - (options_.decay_samples - length);
    return inside <= 0
        ? 1.0
        : wsd_height(
              options_.wsd_decay_style,
              static_cast<double>(inside) / static_cast<double>(length));
  }

  double weight_decay(std::int64_t done) const {
    const double start = options_.start_weight_decay;
    const double end = options_.end_weight_decay;
    if (done > options_.weight_decay_samples ||
        options_.weight_decay_style == WeightDecayStyle::constant) {
      return end;
    }
    const double ratio = static_cast<double>(done) /
        static_cast<double>(options_.weight_decay_samples);
    const double part = options_.weight_decay_style == WeightDecayStyle::linear
        ? ratio
        : cosine(1 - ratio);
    return start + part * (end - start);
  }

  MegatronScheduleOptions options_;
  std::vector<MegatronGroup> groups_;
};

void check(const MegatronScheduleOptions& options) {
  const auto require = [](bool holds, std::string what, std::string values) {
    if (!holds) {
      throw ConfigError(
          {.what = std::move(what),
           .where = "learning-rate schedule",
           .values = std::move(values)});
    }
  };
  const auto both = [](auto first, auto second) {
    return fmt::format("{} and {}", first, second);
  };
  require(
      options.min_lr >= 0 && options.min_lr <= options.max_lr,
      "min_lr must be between 0 and lr",
      both(options.min_lr, options.max_lr));
  require(
      options.init_lr <= options.max_lr,
      "lr_warmup_init must not be above lr",
      both(options.init_lr, options.max_lr));
  require(
      options.decay_samples > 0,
      "the decay must be longer than nothing",
      fmt::format("{} samples", options.decay_samples));
  require(
      options.warmup_samples < static_cast<double>(options.decay_samples),
      "the warm-up must be shorter than the decay",
      both(options.warmup_samples, options.decay_samples) + " samples");
  require(
      options.decay_style != LrDecayStyle::wsd ||
          options.wsd_decay_samples.value_or(0) > 0,
      "WSD needs lr_wsd_decay_iters or lr_wsd_decay_samples",
      "");
  require(
      options.start_weight_decay >= 0 &&
          options.start_weight_decay <= options.end_weight_decay,
      "start_weight_decay must be between 0 and end_weight_decay",
      both(options.start_weight_decay, options.end_weight_decay));
  require(
      options.weight_decay_style != WeightDecayStyle::constant ||
          options.start_weight_decay == options.end_weight_decay,
      "constant weight decay must end as it starts",
      both(options.start_weight_decay, options.end_weight_decay));
  require(
      options.weight_decay_style == WeightDecayStyle::constant ||
          options.weight_decay_samples > 0,
      "a growing weight decay needs a time to grow in",
      fmt::format("{} samples", options.weight_decay_samples));
}

} // namespace

std::unique_ptr<Schedule> megatron_schedule(
    const MegatronScheduleOptions& options,
    std::vector<MegatronGroup> groups) {
  check(options);
  return std::make_unique<MegatronSchedule>(options, std::move(groups));
}

} // namespace cairn::optim
