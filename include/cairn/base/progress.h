#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace cairn {

/// How far a long job is:
///
///   Progress bar({.label = "tokenizing", .total = bytes, .unit = "B"});
///   while (…) { …; bar.advance(chunk.size()); }
///   bar.done();
///
/// On a terminal one line, drawn again at most ten times a second, with share,
/// rate and time left, cut to the terminal's width. Elsewhere (a log file, CI)
/// one line at the end, and one every `line_interval` if that is set. It has no
/// thread: drawing happens inside advance(), which any thread may call.
class Progress {
 public:
  struct Options {
    std::string label;
    std::uint64_t total = 0;    ///< 0: not known, so no share and no time left
    std::string unit = "items"; ///< "B" is for bytes and shown as kB, MB, …
    /// Something else that is counted along: its rate is shown as well.
    std::string second_unit{};
    int fd = 2;
    std::chrono::milliseconds line_interval{0}; ///< 0: only the last line
  };

  explicit Progress(Options options);
  /// Without done(), as after an exception, the terminal's line is ended as it
  /// stands and nothing is claimed.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::uint64_t count = 1, std::uint64_t second_count = 0);

  /// Says how much was done in what time. Further calls do nothing.
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
  std::atomic<Clock::rep> next_draw_; ///< so that advance() seldom locks
  std::mutex drawing_;
  bool drawn_ = false;
  bool done_ = false;
};

} // namespace cairn
