#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace cairn::inline base {

/// Shows the progress of a long job:
///
///   Progress bar({.label = "tokenizing", .total = bytes, .unit = "B"});
///   while (…) { …; bar.advance(chunk.size()); }
///   bar.done();
///
/// On a terminal the progress is one line with share, rate and time left, cut
/// to the terminal's width and redrawn at most ten times a second. Elsewhere (a
/// log file, CI) it is one line at the end, and one every `line_interval` if
/// that is set. There is no thread: drawing happens inside advance(), which any
/// thread may call.
class Progress {
 public:
  struct Options {
    std::string label;
    std::uint64_t total = 0;    ///< 0: unknown, so no share and no time left
    std::string unit = "items"; ///< "B" is for bytes and shown as kB, MB, …
    /// Unit of a second count, whose rate is shown too; empty if there is none.
    std::string second_unit{};
    int fd = 2;
    std::chrono::milliseconds line_interval{0}; ///< 0: only the last line
  };

  explicit Progress(Options options);
  /// Ends the terminal's line without a final message if done() was not called,
  /// as after an exception.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::uint64_t count = 1, std::uint64_t second_count = 0);

  /// Prints the amount and the time. Further calls do nothing.
  void done();

 private:
  using Clock = std::chrono::steady_clock;

  enum class Ending { none, newline };
  void draw(Ending ending);
  void put(std::string_view text);

  Options options_;
  bool terminal_;
  Clock::time_point start_;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> second_count_{0};
  std::atomic<Clock::rep> next_draw_; ///< spares advance() the lock most times
  std::mutex drawing_;
  bool drawn_ = false;
  bool done_ = false;
};

} // namespace cairn::base
