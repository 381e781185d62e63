#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace cairn::inline base {

enum class LogLevel { debug, info, warning, error };

/// Writes whole lines such as `12:04:31.022 [3/8] warning: …`, one write(2) per
/// line, so that the output of several ranks never mixes within a line. A
/// Logger is a value, passed to the code that logs: nothing in Cairn logs
/// through a global.
class Logger {
 public:
  struct Options {
    int fd = 2;
    int rank = 0;
    int world_size = 1; ///< with 1 the rank is not printed
    LogLevel least = LogLevel::info;
  };

  Logger() : Logger(Options{}) {}
  explicit Logger(Options options);

  template <typename... T>
  void debug(fmt::format_string<T...> format, T&&... values) const {
    say(LogLevel::debug, format, std::forward<T>(values)...);
  }
  template <typename... T>
  void info(fmt::format_string<T...> format, T&&... values) const {
    say(LogLevel::info, format, std::forward<T>(values)...);
  }
  template <typename... T>
  void warning(fmt::format_string<T...> format, T&&... values) const {
    say(LogLevel::warning, format, std::forward<T>(values)...);
  }
  template <typename... T>
  void error(fmt::format_string<T...> format, T&&... values) const {
    say(LogLevel::error, format, std::forward<T>(values)...);
  }

  void line(LogLevel level, std::string_view text) const;

  /// True when lines of that level are written.
  bool says(LogLevel level) const noexcept { return level >= options_.least; }

 private:
  template <typename... T>
  void say(LogLevel level, fmt::format_string<T...> format, T&&... values)
      const {
    if (says(level)) {
      line(level, fmt::format(format, std::forward<T>(values)...));
    }
  }

  Options options_;
};

} // namespace cairn::base
