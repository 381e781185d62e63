#pragma once

#include <cairn/monitor/run_values.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::monitor {

using Clock = std::chrono::steady_clock;

/// Source of the time for a timer.
struct TimeSource {
  /// Called before the clock is read. On a GPU it waits for the device, so that
  /// a time includes the work that was started in it.
  std::function<void()> synchronize{};
  std::function<Clock::time_point()> clock = Clock::now;

  Clock::time_point now() const;
};

/// A stopwatch that adds up the time between start() and stop().
class Timer {
 public:
  Timer(std::string name, TimeSource source);

  void start();
  void stop();
  bool running() const noexcept { return running_; }
  /// Milliseconds so far, including a running measurement.
  double elapsed() const;
  /// The number of stops.
  std::int64_t count() const noexcept { return count_; }
  /// The mean of one measurement in milliseconds; 0 before the first stop().
  double mean() const;
  /// Sets the time to zero. A running timer keeps running.
  void reset();

 private:
  std::string name_;
  TimeSource source_;
  bool running_ = false;
  Clock::time_point start_{};
  Clock::duration sum_{};
  std::int64_t count_ = 0;
};

/// `time (ms) | forward: 12.34 | backward: 23.45`; empty without times.
std::string time_line(std::span<const NamedValue> times);

/// Timers by name, created on first use:
///
///   timers("forward").start(); … timers("forward").stop();
///   const TimerScope scope(timers("backward"));
///   log.info("{}", timers.line({"forward", "backward"}, steps));
///
/// Timers with different names may be nested; a timer can run only once at a
/// time. For one thread.
class Timers {
 public:
  explicit Timers(TimeSource source = {});

  Timer& operator()(std::string_view name);

  /// `time (ms) | forward: 12.34 | backward: 23.45`, each time divided by
  /// `divisor` (such as the number of steps since the last line). Names that
  /// were never timed are left out. Empty when nothing is left.
  std::string line(const std::vector<std::string>& names, double divisor = 1.0)
      const;
  /// The line for all timers, in the order of their first use.
  std::string line(double divisor = 1.0) const;

  /// The times of all timers as values.
  std::vector<NamedValue> elapsed() const;

  void reset(); ///< resets all timers

 private:
  TimeSource source_;
  std::map<std::string, Timer, std::less<>> timers_;
  std::vector<std::string> order_;
};

/// Reads the times that timers have added since the last reading. Several
/// readers can read the same timers, since a reader does not reset them.
class TimerReader {
 public:
  /// Milliseconds by name since the last call, each divided by `divisor`.
  std::vector<NamedValue> take(const Timers& timers, double divisor = 1.0);

 private:
  std::map<std::string, double> before_;
};

/// Times a block.
class [[nodiscard]] TimerScope {
 public:
  explicit TimerScope(Timer& timer) : timer_(timer) { timer_.start(); }
  ~TimerScope() { timer_.stop(); }
  TimerScope(const TimerScope&) = delete;
  TimerScope& operator=(const TimerScope&) = delete;

 private:
  Timer& timer_;
};

} // namespace cairn::monitor
