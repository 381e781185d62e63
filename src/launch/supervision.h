#pragma once

#include "launch/child_process.h"
#include "launch/signal_watch.h"

#include <cairn/base/log.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cairn::launch {

/// A process to start and watch: a rank, or a launcher on another host that
/// speaks the node protocol.
struct ChildSpec {
  enum class Kind { rank, launcher };
  Kind kind = Kind::rank;
  std::string name; ///< `rank 3`
  std::string host;
  std::string label; ///< stands in brackets before each of its lines
  int colour = 0;    ///< which of the label colours
  ProcessSpec process;
  std::filesystem::path log_file; ///< its lines, unlabelled; empty: none
  bool append_to_log = false;
};

struct SupervisionOptions {
  /// How long a process that was asked to stop may take before SIGKILL.
  std::chrono::milliseconds grace{5000};
  bool colour = false;
  /// We are a launcher that another one started: write records, and stop when
  /// stdin ends, since that is how it says stop, and how its death shows.
  bool is_node_launcher = false;
  bool lends_terminal = false; ///< a child draws on the terminal
};

/// Why a job went wrong: the process that failed first.
struct Failure {
  std::string
      what; ///< `rank 3 (pid 77, host a) exited with code 1 after 2.0 s`
  int exit_code = 1;
  std::vector<std::string> last_lines; ///< of that process, labelled
  /// A launcher could not run, or could not run its program: no use in trying
  /// again.
  bool before_start = false;
};

struct Outcome {
  std::optional<Failure> failure;
  std::optional<int> stop_signal; ///< we were told to stop
  int exit_code() const;
};

/// Starts the children, passes their output on, and returns when none of them
/// and nothing they have started runs any more. The first failure stops all.
/// Reaps every child of this process, and kills its descendants except those
/// that were there before. Throws, with nothing left running, when a child
/// cannot be started.
Outcome supervise(
    const std::vector<ChildSpec>& children,
    const SupervisionOptions& options,
    SignalWatch& signals,
    const Logger& logger);

} // namespace cairn::launch
