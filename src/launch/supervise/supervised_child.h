#pragma once

#include "base/internal/error_handover.h"
#include "launch/supervise/child_process.h"
#include "launch/supervise/line_splitter.h"
#include "launch/supervise/output_stream.h"
#include "launch/supervise/supervision.h"

#include <cairn/base/file.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// An output stream of a child, which has two.
struct ChildStream {
  UniqueFd fd;         ///< empty once the stream has ended
  int destination = 1; ///< our descriptor for its lines
  LineSplitter lines;
};

/// A started child and its known state.
class SupervisedChild {
 public:
  SupervisedChild(
      const ChildSpec& spec,
      const sigset_t& signal_mask,
      const Logger& logger);

  const ChildSpec& spec() const { return *spec_; }
  pid_t pid() const { return pid_; }
  bool running() const { return !status_.has_value(); }
  bool failed() const { return status_ && *status_ != 0; }
  std::vector<ChildStream>& streams() { return streams_; }

  void ended(int status);

  /// Notes that a signal has stopped the child, or that it goes on.
  void stopped(int signal);
  void goes_on() { stop_.reset(); }
  /// Since when the child is stopped; empty unless it is.
  std::optional<std::chrono::steady_clock::time_point> stopped_since() const;
  /// Takes time off the stop, in which this process was stopped as well.
  void forgive(std::chrono::steady_clock::duration time);

  /// Asks the child to end: a rank by `signal`, a launcher through its stdin.
  void ask_to_stop(int signal);
  void kill();

  /// Writes `line` to the log file and keeps it, labelled, among the last
  /// lines.
  void remember(std::string_view line);
  void keep_last_line(std::string labelled_line);
  void forget_last_lines() { last_lines_.clear(); }

  bool killed_by_signal() const;
  /// The error that the child has handed over, also while it still runs.
  std::optional<HandedError> handed_error() const;
  /// How and why the child failed. It may be running still, if it has handed
  /// over its error.
  Failure failure() const;
  std::vector<std::string> last_lines() const;

 private:
  const ChildSpec* spec_;
  pid_t pid_ = -1;
  std::chrono::steady_clock::time_point started_;
  UniqueFd input_;
  UniqueFd error_memory_;
  std::vector<ChildStream> streams_;
  UniqueFd log_file_;
  std::optional<OutputStream> log_; ///< writes to log_file_
  std::deque<std::string> last_lines_;
  std::optional<int> status_;
  struct Stop {
    int signal = 0;
    std::chrono::steady_clock::time_point since;
  };
  std::optional<Stop> stop_;
};

/// `line` as it is shown: with its label, and a newline at its end.
std::string labelled(const ChildSpec& spec, std::string_view line);
/// labelled() with the label in the child's colour.
std::string labelled_in_colour(const ChildSpec& spec, std::string_view line);

} // namespace cairn::launch
