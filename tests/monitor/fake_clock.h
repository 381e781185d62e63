#pragma once

#include <cairn/monitor/timers.h>

#include <chrono>

namespace cairn::monitor {

/// A clock that moves only on demand, and counts waits for the device.
struct FakeClock {
  Clock::time_point now{};
  int synchronizations = 0;

  TimeSource source() {
    return {
        .synchronize = [this] { ++synchronizations; },
        .clock = [this] { return now; }};
  }
  void pass(double milliseconds) {
    now += std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::milli>(milliseconds));
  }
};

} // namespace cairn::monitor
