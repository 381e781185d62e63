#pragma once

#include "launch/supervise/child_process.h"
#include "launch/supervise/signal_watch.h"

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
  std::string label; ///< shown in brackets before each line
  int colour = 0;    ///< index of the label's colour
  ProcessSpec process;
  std::string first_line;         ///< written to the stdin of a launcher
  std::filesystem::path log_file; ///< unlabelled lines; empty: no log
  bool append_to_log = false;
};

struct SupervisionOptions {
  /// Time that a process gets to stop before it is killed with SIGKILL.
  std::chrono::milliseconds grace{5000};
  /// Time that a rank may be stopped while others wait for it, unless
  /// CAIRN_COLLECTIVE_TIMEOUT in its environment says another.
  std::chrono::seconds patience{600};
  bool colour = false;
  /// True when another launcher started this one: it writes records, and stops
  /// when stdin ends, which is the order to stop and also the sign of the other
  /// launcher's death.
  bool is_node_launcher = false;
  bool lends_terminal = false; ///< a child draws on the terminal
};

/// Why a job failed: the process that failed first.
struct Failure {
  std::string
      what; ///< `rank 3 (pid 77, host a) exited with code 1 after 2.0 s`
  int exit_code = 1;
  std::vector<std::string> last_lines; ///< of that process, labelled
  /// True when a launcher could not run, or could not run its program: a
  /// restart would not help.
  bool before_start = false;
};

struct Outcome {
  std::optional<Failure> failure;
  std::optional<int> stop_signal; ///< set if we were told to stop
  int exit_code() const;
};

/// Starts the children, passes their output on, and returns when neither they
/// nor anything they have started is running. The first failure stops all.
/// Reaps every child of this process, and kills its descendants except those
/// that existed before. If a child cannot be started, throws with nothing left
/// running.
Outcome supervise(
    const std::vector<ChildSpec>& children,
    const SupervisionOptions& options,
    SignalWatch& signals,
    const Logger& logger);

} // namespace cairn::launch
