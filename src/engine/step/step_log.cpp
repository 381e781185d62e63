#include "engine/step/step_log.h"

#include "engine/internal/device_memory.h"
#include "monitor/internal/step_progress.h"

#include <utility>

namespace cairn::inline engine {

namespace {

monitor::TimeSource time_on(at::Device device) {
  return {.synchronize = [device] { synchronize(device); }};
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
      breakdown_(config.logging.wall_clock_breakdown),
      throughput_(
          {.batch_size = config.batch->train,
           .steps_per_output = every_,
           .time = every_ > 0 && config.throughput_timer.synchronized
               ? time_on(device)
               : monitor::TimeSource{}}),
      timers_(std::move(timers)) {
  if (!timers_) {
    timers_ = std::make_shared<monitor::Timers>(
        breakdown_ ? time_on(device) : monitor::TimeSource{});
  }
}

void StepLog::begin_pass() {
  if (!in_pass_) {
    throughput_.start();
    in_pass_ = true;
  }
}

void StepLog::end_step(const Step& step) {
  using Ends = monitor::ThroughputTimer::Ends;
  in_pass_ = false;
  const auto speed = throughput_.stop(
      step.ends_accumulation ? Ends::global_step : Ends::micro_step);
  const bool prints = speaks_ && every_ > 0 && step.ends_accumulation &&
      step.global_step % every_ == 0;
  if (!prints) {
    return;
  }
  monitor::StepProgress progress{
      .step = step.global_step,
      .skipped = step.skipped};
  for (const optim::GroupValues& group : step.groups) {
    progress.groups.push_back(
        {.learning_rate = group.lr,
         .momentum = {group.betas[0], group.betas[1]}});
  }
  logger_.info("{}", monitor::to_string(progress));
  if (speed) {
    logger_.info("{}", monitor::throughput_line(*speed, allocated(device_)));
  }
  if (breakdown_) {
    logger_.info(
        "{}",
        monitor::time_line(times_.take(*timers_, static_cast<double>(every_))));
  }
}

} // namespace cairn::engine
