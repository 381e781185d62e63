#include <cairn/base/error.h>
#include <cairn/optim/loss_scaler.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cairn::optim {
namespace {

constexpr double factor = 2;

/// True when DeepSpeed's scale grows: after this many clean steps, not counting
/// the one that just ended.
bool grows(
    std::int64_t iteration,
    std::int64_t last_overflow,
    std::int64_t window) {
  const std::int64_t clean = iteration - last_overflow - 1;
  return clean > 0 && clean % window == 0;
}

} // namespace

ScaleChange StaticScale::update(bool) {
  return ScaleChange::none;
}

ScaleChange ZeroScale::update(bool overflow) {
  const std::int64_t now = iteration++;
  if (!overflow) {
    if (consecutive_hysteresis) {
      hysteresis = full_hysteresis;
    }
    if (!grows(now, last_overflow, window)) {
      return ScaleChange::none;
    }
    hysteresis = full_hysteresis;
    scale *= factor;
    return ScaleChange::raised;
  }
  last_overflow = now;
  if (full_hysteresis != 1 && hysteresis != 1) {
    --hysteresis;
    return ScaleChange::tolerated;
  }
  if (scale == minimum) {
    return ScaleChange::at_minimum;
  }
  scale = std::max(scale / factor, minimum);
  return ScaleChange::lowered;
}

ScaleChange FusedScale::update(bool overflow) {
  const std::int64_t now = iteration++;
  if (!overflow) {
    if (!grows(now, last_overflow, window)) {
      return ScaleChange::none;
    }
    scale *= factor;
    return ScaleChange::raised;
  }
  last_overflow = now;
  if (scale == minimum) {
    return ScaleChange::at_minimum;
  }
  scale = std::max(scale / factor, minimum);
  return ScaleChange::lowered;
}

ScaleChange MegatronScale::update(bool overflow) {
  if (!overflow) {
    if (++clean_steps != growth_interval) {
      return ScaleChange::none;
    }
    clean_steps = 0;
    hysteresis = full_hysteresis;
    scale *= growth_factor;
    return ScaleChange::raised;
  }
  clean_steps = 0;
  if (--hysteresis > 0) {
    return ScaleChange::tolerated;
  }
  if (scale == minimum) {
    return ScaleChange::at_minimum;
  }
  scale = std::max(scale * backoff_factor, minimum);
  return ScaleChange::lowered;
}

ScaleChange AmpScale::update(bool overflow) {
  if (!overflow) {
    if (++clean_steps != window) {
      return ScaleChange::none;
    }
    clean_steps = 0;
    if (scale >= maximum) {
      return ScaleChange::none;
    }
    scale = std::min(scale * factor, maximum);
    return ScaleChange::raised;
  }
  clean_steps = 0;
  if (scale <= minimum) {
    return ScaleChange::at_minimum;
  }
  scale = std::max(scale / factor, minimum);
  return ScaleChange::lowered;
}

LossScaler LossScaler::from(const config::Fp16Config& config, int zero_stage) {
  if (!config.enabled) {
    return LossScaler();
  }
  if (config.loss_scale != 0) {
    return LossScaler(StaticScale{.scale = config.loss_scale});
  }
  const auto at_least_one = [](std::int64_t value, const char* key) {
    if (value < 1) {
      throw ConfigError(
          {.what = "must be at least 1",
           .where = fmt::format("fp16.{}", key),
           .values = fmt::format("{}", value)});
    }
  };
  at_least_one(config.loss_scale_window, "loss_scale_window");
  const double start =
      std::ldexp(1.0, static_cast<int>(config.initial_scale_power));
  const auto minimum = static_cast<double>(config.min_loss_scale);
  if (zero_stage == 0) {
    return LossScaler(FusedScale{
        .window = config.loss_scale_window,
        .minimum = minimum,
        .scale = start});
  }
  at_least_one(config.hysteresis, "hysteresis");
  return LossScaler(ZeroScale{
      .window = config.loss_scale_window,
      .full_hysteresis = config.hysteresis,
      .consecutive_hysteresis = config.consecutive_hysteresis,
      .minimum = minimum,
      .scale = start,
      .hysteresis = config.hysteresis});
}

LossScaler LossScaler::from(const config::AmpConfig& config, bool in_fp16) {
  if (config.loss_scale.fixed || !in_fp16) {
    return LossScaler(
        StaticScale{.scale = config.loss_scale.fixed.value_or(1)});
  }
  AmpScale dynamic{
      .minimum = config.min_loss_scale,
      .maximum = config.max_loss_scale};
  dynamic.scale =
      std::max(std::min(dynamic.scale, dynamic.maximum), dynamic.minimum);
  return LossScaler(dynamic);
}

double LossScaler::scale() const {
  return std::visit(
      [](const auto& state) { return static_cast<double>(state.scale); },
      state_);
}

ScaleChange LossScaler::update(bool overflow) {
  return std::visit(
      [&](auto& state) { return state.update(overflow); },
      state_);
}

} // namespace cairn::optim
