#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

namespace cairn::bench {

/// Seconds of the quickest call, of those made within `budget` seconds.
inline double best_seconds(double budget, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    work();
    best = std::min(
        best,
        std::chrono::duration<double>(Clock::now() - start).count());
  } while (std::chrono::duration<double>(Clock::now() - begin).count() <
           budget);
  return best;
}

} // namespace cairn::bench
