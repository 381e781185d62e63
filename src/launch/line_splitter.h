#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::launch {

/// Cuts what a process writes into lines. A line that is not ended within half
/// a second is given out as it stands, so that a prompt or a progress bar is
/// seen, and so is one of a megabyte.
class LineSplitter {
 public:
  using Clock = std::chrono::steady_clock;
  /// Gets the bytes of a line, with its newline where it has one.
  using Use = std::function<void(std::string_view)>;

  static constexpr std::chrono::milliseconds patience{500};
  static constexpr std::size_t longest = 1 << 20;

  void feed(std::string_view bytes, Clock::time_point now, const Use& use);

  /// Gives out an unfinished line, if there is one.
  void flush(const Use& use);

  /// When an unfinished line is due to be flushed.
  std::optional<Clock::time_point> due() const;

 private:
  std::string unfinished_;
  Clock::time_point since_;
};

} // namespace cairn::launch
