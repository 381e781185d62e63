#include "engine/step/step_monitor.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline engine {

namespace {

/// Our timers, and what DeepSpeed calls them in its files.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4>
    deepspeeds_timers{
        {{"forward", "forward"},
         {"backward", "backward"},
         {"allreduce", "backward_allreduce"},
         {"optimizer", "step"}}};

config::MonitorConfig unless_acted_on(
    std::string_view key,
    const config::MonitorConfig& config,
    std::span<const std::string> acted_on) {
  return std::ranges::find(acted_on, key) == acted_on.end()
      ? config
      : config::MonitorConfig{};
}

} // namespace

StepMonitor::StepMonitor(const Options& options, const Logger& logger)
    : times_(options.config.logging.wall_clock_breakdown),
      timers_(options.timers) {
  if (options.speaks) {
    monitor_ = monitor::Monitor(
        {.tensorboard = unless_acted_on(
             "tensorboard",
             options.config.tensorboard,
             options.keys_acted_on),
         .csv = unless_acted_on(
             "csv_monitor",
             options.config.csv_monitor,
             options.keys_acted_on)},
        logger);
  }
}

void StepMonitor::add_loss(const at::Tensor& loss) {
  if (!monitor_.writes()) {
    return;
  }
  const at::Tensor value = loss.detach().to(at::kFloat);
  loss_ = losses_++ == 0 ? value : loss_.add(value);
}

void StepMonitor::end_step(const Step& step) {
  if (!monitor_.writes()) {
    return;
  }
  monitor::IterationValues values{
      .iteration = step.global_step,
      .consumed_samples = step.samples,
      .learning_rate = step.learning_rate,
      .loss_scale = step.loss_scale};
  if (losses_ > 0) {
    values.losses = {
        {"loss", loss_.item<double>() / static_cast<double>(losses_)}};
    losses_ = 0;
  }
  if (times_) {
    for (const monitor::NamedValue& time : reader_.take(*timers_)) {
      const auto known = std::ranges::find(
          deepspeeds_timers,
          time.name,
          &std::pair<std::string_view, std::string_view>::first);
      if (known != deepspeeds_timers.end()) {
        values.timers.push_back({std::string(known->second), time.value});
      }
    }
  }
  const monitor::RunSize run{};
  monitor_.iteration({.values = values, .run = run});
}

} // namespace cairn::engine
