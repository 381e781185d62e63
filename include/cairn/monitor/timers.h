#pragma once

#include <cairn/monitor/named_value.h>

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

/// How a timer tells the time.
struct TimeSource {
  /// Called before the clock is read; on a GPU it waits for the device, so that
  /// a time holds the work that was begun in it.
  std::function<void()> synchronize{};
  std::function<Clock::time_point()> clock = Clock::now;

  Clock::time_point now() const;
};

/// A stopwatch that adds up what lies between start() and stop().
class Timer {
 public:
  Timer(std::string name, TimeSource source);

  void start();
  void stop();
  bool running() const noexcept { return running_; }
  /// So far, in milliseconds, with what is running.
  double elapsed() const;
  /// How often it was stopped.
  std::int64_t count() const noexcept { return count_; }
  /// Of one start() to stop(), in milliseconds; 0 before the first stop().
  double mean() const;
  /// From zero again. A running timer runs on.
  void reset();

 private:
  std::string name_;
  TimeSource source_;
  bool running_ = false;
  Clock::time_point start_{};
  Clock::duration sum_{};
  std::int64_t count_ = 0;
};

/// `time (ms) | forward: 12.34 | backward: 23.45`; empty for no times.
std::string time_line(std::span<const NamedValue> times);

/// Timers by name, made when first asked for:
///
///   timers("forward").start(); … timers("forward").stop();
///   const TimerScope scope(timers("backward"));
///   log.info("{}", timers.line({"forward", "backward"}, steps));
///
/// Different names may run inside each other; a name runs once at a time. For
/// one thread.
class Timers {
 public:
  explicit Timers(TimeSource source = {});

  Timer& operator()(std::string_view name);

  /// `time (ms) | forward: 12.34 | backward: 23.45`, each divided by `divisor`
  /// (the steps since the last line, say). Names that were never timed are left
  /// out. Empty when nothing is left.
  std::string line(const std::vector<std::string>& names, double divisor = 1.0)
      const;
  /// All of them, in the order in which they were first asked for.
  std::string line(double divisor = 1.0) const;

  /// The same times as values.
  std::vector<NamedValue> elapsed() const;

  void reset(); ///< all of them

 private:
  TimeSource source_;
  std::map<std::string, Timer, std::less<>> timers_;
  std::vector<std::string> order_;
};

/// What timers have added since they were last read: each of several readers
/// has one, and none resets them for the others.
class TimerReader {
 public:
  /// Milliseconds by name, each divided by `divisor`.
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
