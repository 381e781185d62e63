#include "monitor/internal/throughput.h"

#include "monitor/files/python_number.h"

#include <fmt/format.h>

#include <utility>

namespace cairn::monitor {
namespace {

// DeepSpeed's value, which avoids a division by zero.
constexpr double least_seconds = 1e-6;

std::string gigabytes(std::uint64_t bytes) {
  return rounded_python_number(static_cast<double>(bytes) / (1 << 30), 2);
}

} // namespace

std::string throughput_line(
    const Throughput& throughput,
    const AllocatedMemory& memory) {
  return fmt::format(
      "epoch={}/micro_step={}/global_step={}, RunningAvgSamplesPerSec={}, "
      "CurrSamplesPerSec={}, MemAllocated={}GB, MaxMemAllocated={}GB",
      throughput.epoch,
      throughput.micro_step,
      throughput.global_step,
      python_number(throughput.running_samples_per_second),
      python_number(throughput.current_samples_per_second),
      gigabytes(memory.bytes),
      gigabytes(memory.peak_bytes));
}

ThroughputTimer::ThroughputTimer(Options options)
    : options_(std::move(options)) {}

void ThroughputTimer::start() {
  started_ = true;
  begin_.reset();
  if (global_steps_ >= options_.start_step) {
    begin_ = options_.time.now();
  }
}

std::optional<Throughput> ThroughputTimer::stop(Ends ends) {
  if (!std::exchange(started_, false)) {
    return std::nullopt;
  }
  ++micro_steps_;
  global_steps_ += ends == Ends::global_step ? 1 : 0;
  if (!begin_) {
    return std::nullopt;
  }
  const double seconds =
      std::chrono::duration<double>(options_.time.now() - *begin_).count();
  total_seconds_ += seconds;
  step_seconds_ += seconds;
  if (ends == Ends::micro_step) {
    return std::nullopt;
  }
  const double step_seconds = std::exchange(step_seconds_, 0.0);
  if (options_.steps_per_output <= 0 ||
      global_steps_ % options_.steps_per_output != 0) {
    return std::nullopt;
  }
  const auto samples = static_cast<double>(options_.batch_size);
  const auto timed_steps =
      static_cast<double>(global_steps_ - options_.start_step);
  return Throughput{
      .epoch = epoch_,
      .micro_step = micro_steps_,
      .global_step = global_steps_,
      .running_samples_per_second = samples / (total_seconds_ / timed_steps),
      .current_samples_per_second = samples / (step_seconds + least_seconds)};
}

void ThroughputTimer::next_epoch() {
  ++epoch_;
  micro_steps_ = 0;
}

} // namespace cairn::monitor
