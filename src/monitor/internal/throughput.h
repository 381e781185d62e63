#pragma once

#include <cairn/monitor/run_values.h>
#include <cairn/monitor/timers.h>

#include <cstdint>
#include <optional>
#include <string>

namespace cairn::monitor {

/// The speed of training up to one step.
struct Throughput {
  std::int64_t epoch = 0;
  std::int64_t micro_step = 0;
  std::int64_t global_step = 0;
  double running_samples_per_second = 0; ///< without the warm-up
  double current_samples_per_second = 0; ///< of this step alone
};

/// `epoch=0/micro_step=20/global_step=20, RunningAvgSamplesPerSec=…,
/// CurrSamplesPerSec=…, MemAllocated=4.35GB, MaxMemAllocated=10.02GB`, as
/// DeepSpeed prints it: numbers as in Python, a GB is 2^30 bytes.
std::string throughput_line(
    const Throughput& throughput,
    const AllocatedMemory& memory);

/// Samples per second, counted as DeepSpeed does. start() and stop() surround
/// every micro step; the time between a stop() and the next start() does not
/// count.
class ThroughputTimer {
 public:
  struct Options {
    std::int64_t batch_size = 1;       ///< samples per global step
    std::int64_t start_step = 2;       ///< first global steps, not timed
    std::int64_t steps_per_output = 0; ///< 0: never
    TimeSource time{};
  };
  explicit ThroughputTimer(Options options);

  enum class Ends { micro_step, global_step };

  void start();
  /// Ends a micro step. Returns figures after a global step that is due for a
  /// report. Does nothing without a start().
  std::optional<Throughput> stop(Ends ends);

  /// Begins an epoch; micro steps are counted from zero in each.
  void next_epoch();

 private:
  Options options_;
  bool started_ = false;
  std::optional<Clock::time_point> begin_; ///< empty while warming up
  double total_seconds_ = 0;
  double step_seconds_ = 0;
  std::int64_t epoch_ = 0;
  std::int64_t micro_steps_ = 0;
  std::int64_t global_steps_ = 0;
};

} // namespace cairn::monitor
