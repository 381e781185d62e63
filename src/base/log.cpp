#include <cairn/base/log.h>

#include "base/internal/terminal_safe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <string>

namespace cairn::inline base {
namespace {

std::string_view prefix(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug: ";
    case LogLevel::info:
      return "";
    case LogLevel::warning:
      return "warning: ";
    case LogLevel::error:
      return "error: ";
  }
  return "";
}

std::string time_of_day() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(
          now.time_since_epoch())
          .count() %
      1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format(
      "{:02}:{:02}:{:02}.{:03}",
      local.tm_hour,
      local.tm_min,
      local.tm_sec,
      milliseconds);
}

} // namespace

Logger::Logger(Options options) : options_(options) {}

void Logger::line(LogLevel level, std::string_view text) const {
  if (!says(level)) {
    return;
  }
  std::string out = time_of_day();
  if (options_.world_size > 1) {
    out += fmt::format(" [{}/{}]", options_.rank, options_.world_size);
  }
  out += ' ';
  out += prefix(level);
  out += terminal_safe(text);
  out += '\n';
  // Usually one write(2). There is nowhere to report a line that cannot be
  // written.
  std::string_view rest = out;
  while (!rest.empty()) {
    const ssize_t written = ::write(options_.fd, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      return;
    }
  }
}

} // namespace cairn::base
