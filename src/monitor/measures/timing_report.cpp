#include "monitor/internal/timing_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace cairn::monitor {
namespace {

std::string every_rank(const RankTimes& timer) {
  std::string text = fmt::format("\n  {}:", timer.name);
  for (std::size_t rank = 0; rank < timer.times.size(); ++rank) {
    if (timer.times[rank] > 0) {
      text += fmt::format("\n     rank {:2}: {:.2f}", rank, timer.times[rank]);
    }
  }
  return text;
}

std::string lowest_and_highest(const RankTimes& timer, bool highest_only) {
  double low = 0;
  double high = 0;
  for (const double time : timer.times) {
    if (time > 0) {
      low = low == 0 ? time : std::min(low, time);
      high = std::max(high, time);
    }
  }
  const std::string name = fmt::format("\n    {:.<48}: ", timer.name + " ");
  return highest_only ? fmt::format("{}{:.2f}", name, high)
                      : fmt::format("{}({:.2f}, {:.2f})", name, low, high);
}

} // namespace

std::string timing_report(
    std::string_view option,
    std::span<const RankTimes> timers) {
  std::string text;
  for (const RankTimes& timer : timers) {
    const bool ran =
        std::any_of(timer.times.begin(), timer.times.end(), [](double time) {
          return time > 0;
        });
    if (ran) {
      text += option == "all" ? every_rank(timer)
                              : lowest_and_highest(timer, option == "max");
    }
  }
  if (text.empty()) {
    return text;
  }
  const std::string_view head = option == "all" ? "times"
      : option == "max"                         ? "max time"
                                                : "(min, max) time";
  return fmt::format("{} across ranks (ms):{}", head, text);
}

} // namespace cairn::monitor
