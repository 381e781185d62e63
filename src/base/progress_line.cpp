#include "base/internal/progress_line.h"

#include "base/internal/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace cairn::inline base {
namespace {

struct Scaled {
  std::string number;
  std::string_view prefix;
};

Scaled scaled(double count) {
  constexpr std::array<std::string_view, 7> prefixes =
      {"", "k", "M", "G", "T", "P", "E"};
  std::size_t step = 0;
  // 999.5 would be printed as 1000.
  while (count >= 999.5 && step + 1 < prefixes.size()) {
    count /= 1000.0;
    ++step;
  }
  const bool whole = count == std::floor(count) && step == 0;
  const int decimals = whole || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
  return {fmt::format("{:.{}f}", count, decimals), prefixes[step]};
}

double rate(std::uint64_t count, const ProgressMoment& moment) {
  const double seconds = moment.elapsed.count();
  return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
}

std::string rate_text(const ProgressMoment& moment) {
  std::string text = amount(rate(moment.count, moment), moment.unit) + "/s";
  if (!moment.second_unit.empty()) {
    text += ", " +
        amount(rate(moment.second_count, moment), moment.second_unit) + "/s";
  }
  return text;
}

double share(const ProgressMoment& moment) {
  return std::min(
      1.0,
      static_cast<double>(moment.count) / static_cast<double>(moment.total));
}

std::string percent(const ProgressMoment& moment) {
  // Rounded down, so that 100% appears only when all is done.
  return fmt::format("{:3.0f}%", std::floor(share(moment) * 100.0));
}

/// Empty while the time left cannot be estimated.
std::string time_left(const ProgressMoment& moment) {
  const double speed = rate(moment.count, moment);
  if (speed <= 0.0 || moment.count >= moment.total) {
    return {};
  }
  const double left = static_cast<double>(moment.total - moment.count) / speed;
  return clock_time(std::chrono::duration<double>(left)) + " left";
}

/// The label with control characters replaced: it may hold a file name, whose
/// bytes could move the cursor.
std::string printable(std::string_view label) {
  std::string text(label);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      c = '?';
    }
  }
  return text;
}

std::string bar(double share, std::size_t width) {
  const auto full =
      static_cast<std::size_t>(share * static_cast<double>(width));
  std::string text(width, ' ');
  std::fill_n(text.begin(), full, '=');
  if (full < width) {
    text[full] = '>';
  }
  return '[' + text + ']';
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) {
      text += text.empty() ? "" : "  ";
      text += part;
    }
  }
  return text;
}

} // namespace

std::string amount(double count, std::string_view unit) {
  const Scaled value = scaled(count);
  return unit == "B" ? fmt::format("{} {}B", value.number, value.prefix)
                     : fmt::format("{}{} {}", value.number, value.prefix, unit);
}

std::string clock_time(std::chrono::duration<double> time) {
  constexpr double longest = 999.0 * 24 * 3600;
  const auto seconds =
      static_cast<std::int64_t>(std::clamp(time.count(), 0.0, longest));
  const std::int64_t minutes = seconds / 60;
  const std::int64_t hours = minutes / 60;
  if (hours >= 24) {
    return fmt::format("{}d {:02}:{:02}", hours / 24, hours % 24, minutes % 60);
  }
  if (hours > 0) {
    return fmt::format("{}:{:02}:{:02}", hours, minutes % 60, seconds % 60);
  }
  return fmt::format("{}:{:02}", minutes, seconds % 60);
}

std::string bar_line(const ProgressMoment& moment, std::size_t width) {
  constexpr std::size_t shortest_bar = 10;
  constexpr std::size_t longest_bar = 40;
  const std::string label = printable(moment.label);
  const std::string speed = rate_text(moment);
  const std::string done =
      amount(static_cast<double>(moment.count), moment.unit);
  if (moment.total == 0) {
    return cut_text(joined({label, done, speed}), width);
  }
  const std::string all =
      amount(static_cast<double>(moment.total), moment.unit);
  const std::string left = time_left(moment);
  const std::string of_all = done + "/" + all;
  const std::string without_bar =
      joined({label, percent(moment), of_all, speed, left});
  // The two brackets and two blanks that an empty bar takes.
  const std::size_t with_empty_bar = text_columns(without_bar) + 4;
  if (with_empty_bar + shortest_bar <= width) {
    const std::size_t room = std::min(longest_bar, width - with_empty_bar);
    return joined(
        {label,
         percent(moment),
         bar(share(moment), room),
         of_all,
         speed,
         left});
  }
  const std::vector<std::vector<std::string>> shorter = {
      {label, percent(moment), of_all, speed, left},
      {label, percent(moment), speed, left},
      {label, percent(moment), left},
      {label, percent(moment)}};
  for (const auto& parts : shorter) {
    std::string line = joined(parts);
    if (text_columns(line) <= width) {
      return line;
    }
  }
  // The label is cut last, from its end.
  const std::string number = percent(moment);
  const std::size_t taken = text_columns(number) + 2;
  return cut_text(
      joined({cut_text(label, width > taken ? width - taken : 0), number}),
      width);
}

std::string plain_line(const ProgressMoment& moment) {
  std::string text = fmt::format(
      "{}: {}",
      printable(moment.label),
      amount(static_cast<double>(moment.count), moment.unit));
  if (moment.total > 0) {
    const std::string share_text = percent(moment);
    text += fmt::format(
        " of {} ({})",
        amount(static_cast<double>(moment.total), moment.unit),
        share_text.substr(share_text.find_first_not_of(' ')));
  }
  text += ", " + rate_text(moment);
  if (moment.total > 0) {
    const std::string left = time_left(moment);
    text += left.empty() ? "" : ", " + left;
  }
  return text;
}

std::string final_line(const ProgressMoment& moment) {
  return fmt::format(
      "{}: {} in {} ({})",
      printable(moment.label),
      amount(static_cast<double>(moment.count), moment.unit),
      clock_time(moment.elapsed),
      rate_text(moment));
}

} // namespace cairn::base
