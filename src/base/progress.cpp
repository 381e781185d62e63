#include "base/internal/progress.h"

#include "base/internal/progress_line.h"
#include "base/internal/terminal.h"

#include <string_view>
#include <utility>

namespace cairn::inline base {
namespace {

constexpr std::chrono::milliseconds redraw_interval{100};

} // namespace

Progress::Progress(Options options)
    : options_(std::move(options)),
      terminal_(can_redraw(options_.fd)),
      start_(Clock::now()) {
  const auto first = terminal_             ? start_
      : options_.line_interval.count() > 0 ? start_ + options_.line_interval
                                           : Clock::time_point::max();
  next_draw_ = first.time_since_epoch().count();
}

Progress::~Progress() {
  if (drawn_ && !done_) {
    put("\n");
  }
}

void Progress::advance(std::uint64_t count, std::uint64_t second_count) {
  count_.fetch_add(count, std::memory_order_relaxed);
  second_count_.fetch_add(second_count, std::memory_order_relaxed);
  if (next_draw_.load(std::memory_order_relaxed) ==
      Clock::time_point::max().time_since_epoch().count()) {
    return;
  }
  const Clock::time_point now = Clock::now();
  if (now.time_since_epoch().count() <
      next_draw_.load(std::memory_order_relaxed)) {
    return;
  }
  // A thread that comes while another one draws has nothing to add.
  const std::unique_lock lock(drawing_, std::try_to_lock);
  if (!lock || done_ ||
      now.time_since_epoch().count() <
          next_draw_.load(std::memory_order_relaxed)) {
    return;
  }
  const Clock::duration pause =
      terminal_ ? redraw_interval : options_.line_interval;
  next_draw_.store(
      (now + pause).time_since_epoch().count(),
      std::memory_order_relaxed);
  draw(Ending::none);
}

void Progress::done() {
  const std::lock_guard lock(drawing_);
  if (!std::exchange(done_, true)) {
    draw(Ending::newline);
  }
}

void Progress::draw(Ending ending) {
  const ProgressMoment moment{
      .label = options_.label,
      .unit = options_.unit,
      .count = count_.load(std::memory_order_relaxed),
      .total = options_.total,
      .elapsed = Clock::now() - start_,
      .second_unit = options_.second_unit,
      .second_count = second_count_.load(std::memory_order_relaxed)};
  if (ending == Ending::newline) {
    std::string line = terminal_ ? "\r" : "";
    line += final_line(moment);
    line += terminal_ ? clear_to_end : "";
    line += "\n";
    put(line);
  } else if (terminal_) {
    std::string line = "\r";
    line += bar_line(moment, terminal_size(options_.fd).columns);
    line += clear_to_end;
    put(line);
    drawn_ = true;
  } else {
    put(plain_line(moment) + "\n");
  }
}

void Progress::put(std::string_view text) {
  put_on_terminal(options_.fd, text);
}

} // namespace cairn::base
