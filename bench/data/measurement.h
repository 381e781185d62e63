#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace cairn::bench {

/// Seconds of each of `count` calls, after one that is not counted.
inline std::vector<double> timed(int count, const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int i = -1; i < count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    if (i >= 0) {
      seconds.push_back(took.count());
    }
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

/// The line that the harness reads: the median, and how far the others are.
/// `more` is further members, each with a comma in front.
inline void print_rate(
    double work,
    const std::string& unit,
    const std::vector<double>& sorted_seconds,
    const std::string& more) {
  fmt::print(
      "{{\"value\": {:.5g}, \"unit\": \"{}\", \"best\": {:.5g}, \"worst\": "
      "{:.5g}, \"samples\": {}{}}}\n",
      work / sorted_seconds[sorted_seconds.size() / 2],
      unit,
      work / sorted_seconds.front(),
      work / sorted_seconds.back(),
      sorted_seconds.size(),
      more);
}

inline void print_seconds(
    const std::vector<double>& sorted_seconds,
    const std::string& more) {
  fmt::print(
      "{{\"value\": {:.5g}, \"unit\": \"s\", \"best\": {:.5g}, \"worst\": "
      "{:.5g}, \"samples\": {}{}}}\n",
      sorted_seconds[sorted_seconds.size() / 2],
      sorted_seconds.front(),
      sorted_seconds.back(),
      sorted_seconds.size(),
      more);
}

} // namespace cairn::bench
