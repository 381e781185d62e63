#pragma once

#include <cairn/monitor/run_values.h>

#include <cstdint>
#include <optional>

namespace cairn::monitor {

/// Sums over iterations, on all ranks together.
struct WorkDone {
  double iterations = 0;
  double samples = 0;
  double tokens = 0;
  double flops = 0;

  void add(const IterationValues& values);
  WorkDone since(const WorkDone& before) const;
};

struct SpeedOptions {
  RunSize run{};
  std::optional<double> peak_flops{}; ///< per second, of one device
};

/// The speed of work that took `seconds`, with the time left after `iteration`.
IterationSpeed speed_of(
    const WorkDone& work,
    double seconds,
    std::int64_t iteration,
    const SpeedOptions& options);

} // namespace cairn::monitor
