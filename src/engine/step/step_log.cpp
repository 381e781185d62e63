#include "engine/step/step_log.h"

#include "engine/internal/device_memory.h"
#include "monitor/internal/step_progress.h"

#include <utility>

namespace cairn::inline engine {

namespace {

/// DeepSpeed's default of `steps_per_print`.
constexpr std::int64_t default_interval = 10;

monitor::TimeSource time_on(at::Device device) {
  return {.synchronize = [device] { synchronize(device); }};
}

/// Updates between lines of times; 0: never. The profiler needs timers that
/// wait for the device, and asks for no lines.
std::int64_t interval_of_times(const config::DeepSpeedConfig& config) {
  if (!config.logging.wall_clock_breakdown) {
    return 0;
  }
  return config.logging.steps_per_print.value_or(
      config.flops_profiler.enabled ? 0 : default_interval);
}

double megabytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

} // namespace

StepLog::StepLog(
    const config::DeepSpeedConfig& config,
    const Logger& logger,
    at::Device device,
    bool speaks,
    std::shared_ptr<monitor::Timers> timers)
    : logger_(logger),
      device_(device),
      speaks_(speaks),
      every_(config.logging.steps_per_print.value_or(0)),
      times_every_(interval_of_times(config)),
      memory_breakdown_(speaks && config.logging.memory_breakdown),
      has_throughput_(config.throughput_timer.enabled),
      throughput_(
          {.batch_size = config.batch->train,
           .steps_per_output = every_,
           .time = every_ > 0 && config.throughput_timer.enabled &&
                   config.throughput_timer.synchronized
               ? time_on(device)
               : monitor::TimeSource{}}),
      timers_(std::move(timers)) {
  if (!timers_) {
    timers_ = std::make_shared<monitor::Timers>(
        config.logging.wall_clock_breakdown ? time_on(device)
                                            : monitor::TimeSource{});
  }
}

void StepLog::begin_pass() {
  if (!in_pass_ && has_throughput_) {
    throughput_.start();
  }
  in_pass_ = true;
}

void StepLog::phase(std::string_view name) {
  if (!memory_breakdown_) {
    return;
  }
  synchronize(device_);
  const monitor::AllocatedMemory memory = allocated(device_);
  const auto now = static_cast<std::int64_t>(memory.bytes);
  logger_.info(
      "memory {} of update {} | allocated: {:.2f} MB | max allocated: {:.2f} "
      "MB | since the phase before: {:+.2f} MB",
      name,
      updates_ + 1,
      megabytes(now),
      megabytes(static_cast<std::int64_t>(memory.peak_bytes)),
      memory_before_ == 0 ? 0.0 : megabytes(now - memory_before_));
  memory_before_ = now;
}

void StepLog::end_step(const Step& step) {
  using Ends = monitor::ThroughputTimer::Ends;
  in_pass_ = false;
  updates_ = step.global_step;
  const auto speed = throughput_.stop(
      step.ends_accumulation ? Ends::global_step : Ends::micro_step);
  const auto is_due = [&](std::int64_t every) {
    return speaks_ && every > 0 && step.ends_accumulation &&
        step.global_step % every == 0;
  };
  if (is_due(every_)) {
    say_progress(step);
    if (speed) {
      logger_.info("{}", monitor::throughput_line(*speed, allocated(device_)));
    }
  }
  if (is_due(times_every_)) {
    logger_.info(
        "{}",
        monitor::time_line(
            times_.take(*timers_, static_cast<double>(times_every_))));
  }
}

void StepLog::say_progress(const Step& step) const {
  monitor::StepProgress progress{
      .step = step.global_step,
      .skipped = step.skipped};
  for (const optim::GroupValues& group : step.groups) {
    progress.groups.push_back(
        {.learning_rate = group.lr,
         .momentum = {group.betas[0], group.betas[1]}});
  }
  logger_.info("{}", monitor::to_string(progress));
}

} // namespace cairn::engine
