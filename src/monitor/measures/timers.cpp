#include <cairn/monitor/timers.h>

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace cairn::monitor {
namespace {

double milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

} // namespace

Clock::time_point TimeSource::now() const {
  if (synchronize) {
    synchronize();
  }
  return clock();
}

Timer::Timer(std::string name, TimeSource source)
    : name_(std::move(name)), source_(std::move(source)) {}

void Timer::start() {
  if (running_) {
    throw InternalError(
        {.what = fmt::format("timer \"{}\" runs already", name_)});
  }
  start_ = source_.now();
  running_ = true;
}

void Timer::stop() {
  if (!running_) {
    throw InternalError(
        {.what = fmt::format("timer \"{}\" was not started", name_)});
  }
  // Set first, so that no timer stays running if the synchronisation fails.
  running_ = false;
  sum_ += source_.now() - start_;
  ++count_;
}

double Timer::elapsed() const {
  return milliseconds(running_ ? sum_ + (source_.now() - start_) : sum_);
}

double Timer::mean() const {
  return count_ == 0 ? 0.0 : milliseconds(sum_) / static_cast<double>(count_);
}

void Timer::reset() {
  sum_ = {};
  count_ = 0;
  if (running_) {
    start_ = source_.now();
  }
}

Timers::Timers(TimeSource source) : source_(std::move(source)) {}

Timer& Timers::operator()(std::string_view name) {
  auto found = timers_.find(name);
  if (found == timers_.end()) {
    std::string key(name);
    order_.push_back(key);
    found = timers_.emplace(key, Timer(key, source_)).first;
  }
  return found->second;
}

std::string time_line(std::span<const NamedValue> times) {
  std::string text;
  for (const NamedValue& time : times) {
    fmt::format_to(
        std::back_inserter(text),
        " | {}: {:.2f}",
        time.name,
        time.value);
  }
  return text.empty() ? text : "time (ms)" + text;
}

std::string Timers::line(const std::vector<std::string>& names, double divisor)
    const {
  if (!(divisor > 0.0)) {
    throw InternalError(
        {.what = "times can only be divided by a positive number",
         .values = fmt::format("{}", divisor)});
  }
  std::vector<NamedValue> times;
  for (const std::string& name : names) {
    const auto found = timers_.find(name);
    if (found != timers_.end()) {
      times.push_back({name, found->second.elapsed() / divisor});
    }
  }
  return time_line(times);
}

std::string Timers::line(double divisor) const {
  return line(order_, divisor);
}

std::vector<NamedValue> Timers::elapsed() const {
  std::vector<NamedValue> times;
  for (const std::string& name : order_) {
    times.push_back({name, timers_.find(name)->second.elapsed()});
  }
  return times;
}

void Timers::reset() {
  for (auto& [name, timer] : timers_) {
    timer.reset();
  }
}

std::vector<NamedValue> TimerReader::take(
    const Timers& timers,
    double divisor) {
  std::vector<NamedValue> times = timers.elapsed();
  for (NamedValue& time : times) {
    const double now = time.value;
    double& before = before_[time.name];
    time.value = (now - before) / divisor;
    before = now;
  }
  return times;
}

} // namespace cairn::monitor
