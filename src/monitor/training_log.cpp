#include <cairn/monitor/training_log.h>

#include "base/internal/terminal.h"
#include "monitor/internal/live_display.h"
#include "monitor/measures/iteration_interval.h"
#include "monitor/measures/work_done.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <utility>

namespace cairn::monitor {
namespace {

constexpr std::chrono::milliseconds redraw_pause{100};
/// The time over which the live display averages its speed.
constexpr double recent_milliseconds = 10'000;

} // namespace

struct TrainingLog::State {
  Options options;
  Monitor monitor;
  SpeedOptions speed_options;
  Timer training; ///< runs, except in pauses
  IterationInterval interval{};
  double interval_begin = 0; ///< value of `training`, in milliseconds

  /// Null when lines are written instead.
  std::unique_ptr<LiveDisplay> display{};
  /// Set when the launcher lends its terminal: lines then reach the terminal by
  /// another way than the drawing.
  std::optional<LentTerminal> lent{};
  TrainingView view;
  TrainingMoment moment{};
  Clock::time_point next_draw{};
  WorkDone work{};
  struct Mark {
    double time = 0; ///< value of `training`, in milliseconds
    WorkDone work{};
  };
  std::deque<Mark> recent{Mark{}};

  State(Options given, Monitor to);
  void iteration(const IterationValues& values);
  void show(const IterationValues& values);
  void say(std::string_view text);
};

TrainingLog::State::State(Options given, Monitor to)
    : options(std::move(given)),
      monitor(std::move(to)),
      speed_options{options.run, options.peak_flops},
      training("training", options.time),
      view(options.target) {
  if (options.display == Display::live ||
      (options.display == Display::automatic &&
       LiveDisplay::possible(options.fd))) {
    display = std::make_unique<LiveDisplay>(options.fd);
  } else if (options.display == Display::automatic) {
    lent = lent_terminal();
    if (lent && LiveDisplay::possible(lent->fd)) {
      display = std::make_unique<LiveDisplay>(lent->fd);
    }
  }
  options.log_interval = std::max<std::int64_t>(1, options.log_interval);
  moment.iterations = options.run.iterations;
  moment.iteration = options.first_iteration;
  training.start();
}

void TrainingLog::State::iteration(const IterationValues& values) {
  interval.add(values);
  IterationRecord record{values, options.run};
  if (values.iteration % options.log_interval == 0) {
    const double now = training.elapsed();
    record.speed = speed_of(
        interval.work(),
        (now - interval_begin) / 1000.0,
        values.iteration,
        speed_options);
    const IterationValues shown = interval.values();
    if (!display || (lent && lent->logged)) {
      say(iteration_line(shown, *record.speed, options.run));
    }
    if (options.times_line && !shown.timers.empty()) {
      say(time_line(shown.timers));
    }
    interval = {};
    interval_begin = now;
  }
  if (monitor.wants(values.iteration)) {
    monitor.iteration(record);
  }
  if (display) {
    show(values);
  }
}

void TrainingLog::State::show(const IterationValues& values) {
  const double now = training.elapsed();
  work.add(values);
  recent.push_back({now, work});
  while (recent.size() > 2 && now - recent.front().time > recent_milliseconds) {
    recent.pop_front();
  }
  const IterationSpeed speed = speed_of(
      work.since(recent.front().work),
      (now - recent.front().time) / 1000.0,
      values.iteration,
      speed_options);
  moment.iteration = values.iteration;
  if (!values.losses.empty() && values.skipped < values.iterations) {
    moment.loss = values.losses.front().value;
  }
  moment.learning_rate = values.learning_rate;
  moment.tokens_per_second = speed.tokens_per_second;
  moment.utilisation = speed.utilisation;
  moment.seconds_left = speed.seconds_left;
  view.add(moment);
  const Clock::time_point time = options.time.clock();
  if (time >= next_draw || values.iteration == options.run.iterations) {
    display->draw(view);
    next_draw = time + redraw_pause;
  }
}

void TrainingLog::State::say(std::string_view text) {
  if (display && !lent) {
    display->say(text, view);
  } else {
    put_on_terminal(options.fd, std::string(text) + "\n");
  }
}

TrainingLog::TrainingLog(Options options, Monitor monitor)
    : state_(std::make_unique<State>(std::move(options), std::move(monitor))) {}
TrainingLog::~TrainingLog() = default;
TrainingLog::TrainingLog(TrainingLog&&) noexcept = default;
TrainingLog& TrainingLog::operator=(TrainingLog&&) noexcept = default;

bool TrainingLog::live() const {
  return state_->display != nullptr;
}

bool TrainingLog::wants(std::int64_t iteration) const {
  return live() || iteration % state_->options.log_interval == 0 ||
      state_->monitor.wants(iteration);
}

void TrainingLog::iteration(const IterationValues& values) {
  state_->iteration(values);
}

void TrainingLog::validation(const ValidationValues& values) {
  state_->monitor.validation(values);
  if (values.data == Evaluated::validation && !values.losses.empty()) {
    state_->moment.validation_loss = values.losses.front().value;
    state_->view.add(state_->moment);
  }
  state_->say(live() ? validation_line(values) : validation_lines(values));
}

void TrainingLog::event(const RunEvent& event) {
  state_->monitor.event(event);
}

void TrainingLog::say(std::string_view text) {
  state_->say(text);
}

TrainingLog::Pause::Pause(TrainingLog& log) : log_(log) {
  log_.state_->training.stop();
}
TrainingLog::Pause::~Pause() {
  log_.state_->training.start();
}

void TrainingLog::finish() {
  if (state_->display) {
    state_->display->draw(state_->view);
    state_->display.reset();
  }
  state_->monitor.flush();
}

} // namespace cairn::monitor
