#include "monitor/measures/work_done.h"

#include <algorithm>

namespace cairn::monitor {

void WorkDone::add(const IterationValues& values) {
  const auto count = static_cast<double>(values.iterations);
  const double batch = count * static_cast<double>(values.batch_size);
  iterations += count;
  samples += batch;
  tokens += values.tokens ? count * *values.tokens
                          : batch * static_cast<double>(values.sequence_length);
  flops += count * values.flops;
}

WorkDone WorkDone::since(const WorkDone& before) const {
  return {
      iterations - before.iterations,
      samples - before.samples,
      tokens - before.tokens,
      flops - before.flops};
}

IterationSpeed speed_of(
    const WorkDone& work,
    double seconds,
    std::int64_t iteration,
    const SpeedOptions& options) {
  IterationSpeed speed;
  if (seconds <= 0 || work.iterations <= 0) {
    return speed;
  }
  speed.seconds = seconds / work.iterations;
  speed.samples_per_second = work.samples / seconds;
  speed.tokens_per_second = work.tokens / seconds;
  if (work.flops > 0) {
    const auto ranks =
        static_cast<double>(std::max<std::int64_t>(1, options.run.ranks));
    speed.flops_per_second = work.flops / seconds / ranks;
    if (options.peak_flops) {
      speed.utilisation = *speed.flops_per_second / *options.peak_flops;
    }
  }
  const std::int64_t left = options.run.iterations - iteration;
  if (left > 0) {
    speed.seconds_left = speed.seconds * static_cast<double>(left);
  }
  return speed;
}

} // namespace cairn::monitor
