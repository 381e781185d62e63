#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::launch {

/// Cuts the output of a process into lines. A line that is not ended within
/// half a second is passed on as it is, so that prompts and progress bars are
/// seen; so is a line of a megabyte.
class LineSplitter {
 public:
  using Clock = std::chrono::steady_clock;
  /// Called with the bytes of a line, including its newline if it has one.
  using Use = std::function<void(std::string_view)>;

  static constexpr std::chrono::milliseconds patience{500};
  static constexpr std::size_t longest = 1 << 20;

  void feed(std::string_view bytes, Clock::time_point now, const Use& use);

  /// Passes on an unfinished line, if there is one.
  void flush(const Use& use);

  /// The time at which an unfinished line must be flushed.
  std::optional<Clock::time_point> due() const;

 private:
  std::string unfinished_;
  Clock::time_point since_;
};

} // namespace cairn::launch
