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
  // First, so that a scope whose synchronisation fails leaves no timer running.
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

std::string Timers::line(const std::vector<std::string>& names, double divisor)
    const {
  if (!(divisor > 0.0)) {
    throw InternalError(
        {.what = "times can only be divided by a positive number",
         .values = fmt::format("{}", divisor)});
  }
  std::string text;
  for (const std::string& name : names) {
    const auto found = timers_.find(name);
    if (found != timers_.end()) {
      fmt::format_to(
          std::back_inserter(text),
          " | {}: {:.2f}",
          name,
          found->second.elapsed() / divisor);
    }
  }
  return text.empty() ? text : "time (ms)" + text;
}

std::string Timers::line(double divisor) const {
  return line(order_, divisor);
}

void Timers::reset() {
  for (auto& [name, timer] : timers_) {
    timer.reset();
  }
}

} // namespace cairn::monitor
