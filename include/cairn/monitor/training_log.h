#pragma once

#include <cairn/monitor/monitor.h>
#include <cairn/monitor/run_values.h>
#include <cairn/monitor/timers.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace cairn::monitor {

/// Shows and writes everything about a training, on the one rank that does so:
///
///   TrainingLog log({.run = {.iterations = 1000, .ranks = 8}}, monitor);
///   for (…) {
///     …
///     if (log.wants(iteration)) {
///       log.iteration({.iteration = iteration, .losses = {{"lm loss",
///       loss}}});
///     }
///   }
///   log.finish();
///
/// On a terminal, also on that of `cairn launch`, it draws the loss and a
/// status line, at most ten times a second; elsewhere it writes a line every
/// `log_interval` iterations.
class TrainingLog {
 public:
  enum class Display {
    automatic, ///< live if possible
    live,
    lines,
  };
  struct Options {
    RunSize run{};
    std::int64_t first_iteration = 0; ///< the run resumes after it
    std::int64_t log_interval = 100;
    bool times_line = true; ///< with the log line, if there are timers
    std::optional<double> peak_flops{}; ///< per second, of one device
    std::optional<LossTarget> target{};
    Display display = Display::automatic;
    int fd = 1;
    TimeSource time{};
  };
  explicit TrainingLog(Options options, Monitor monitor = {});
  ~TrainingLog();
  TrainingLog(TrainingLog&&) noexcept;
  TrainingLog& operator=(TrainingLog&&) noexcept;

  /// True when it draws. With display `automatic` that means that it can draw.
  bool live() const;

  /// True when the values of that iteration are used. A caller that skips the
  /// other iterations passes means instead (IterationValues).
  bool wants(std::int64_t iteration) const;
  void iteration(const IterationValues& values);
  void validation(const ValidationValues& values);
  /// Passes an event to the files that can hold it; shows nothing.
  void event(const RunEvent& event);

  /// Prints a line of the caller on the same output.
  void say(std::string_view text);

  /// Excludes the time until its destruction from training: for evaluations and
  /// saves.
  class [[nodiscard]] Pause {
   public:
    explicit Pause(TrainingLog& log);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    TrainingLog& log_;
  };

  /// Shows the last state and writes everything that is held back.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::monitor
