#pragma once

#include <cairn/monitor/iteration.h>
#include <cairn/monitor/loss_plot.h>
#include <cairn/monitor/monitor.h>
#include <cairn/monitor/timers.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace cairn::monitor {

/// Everything that a training shows and writes, on the one rank that does:
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
    automatic, ///< live where it is possible
    live,
    lines,
  };
  struct Options {
    RunSize run{};
    std::int64_t first_iteration = 0; ///< after which the run goes on
    std::int64_t log_interval = 100;
    bool times_line = true; ///< with the log line, where there are timers
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

  /// Whether it draws; so for display `automatic` whether it can.
  bool live() const;

  /// Whether it has a use for the values of that iteration. Who leaves out
  /// those for which it has none hands over means (IterationValues).
  bool wants(std::int64_t iteration) const;
  void iteration(const IterationValues& values);
  void validation(const ValidationValues& values);
  /// For the files that hold such things; nothing is shown.
  void event(const RunEvent& event);

  /// A line of someone else's, on the same output.
  void say(std::string_view text);

  /// Until it ends, time does not count as training: evaluations, saves.
  class [[nodiscard]] Pause {
   public:
    explicit Pause(TrainingLog& log);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    TrainingLog& log_;
  };

  /// Shows the last state and writes what is held back.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::monitor
