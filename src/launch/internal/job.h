#pragma once

#include "launch/internal/node_plan.h"

#include <cairn/base/log.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace cairn::launch {

/// The options for running any job.
struct JobOptions {
  int max_restarts = 0;
  /// Delay before the first restart; it doubles with each further one.
  std::chrono::milliseconds first_delay{1000};
  std::chrono::milliseconds longest_delay{60000};
  /// Time that a rank gets to stop before it is killed with SIGKILL.
  std::chrono::milliseconds grace{5000};
  /// Time that a rank may be stopped while others wait for it, unless
  /// CAIRN_COLLECTIVE_TIMEOUT in its environment says another.
  std::chrono::seconds patience{600};
  std::filesystem::path log_dir; ///< folder for rank_N.log; empty: no logs
  bool colour = false;           ///< colours the labels of the lines
  /// True when another launcher has started this one and reads its stdout and
  /// stderr. The job then stops when stdin ends.
  bool is_node_launcher = false;
};

/// A command that this process runs to start the launcher of one host.
struct HostCommand {
  std::string host;
  std::vector<std::string> command;
  std::string secret; ///< of the job; written to the command's stdin first
};

/// Throws ConfigError when a rank's program is not found on this machine.
void check_program(const NodePlan& plan);

/// Runs the ranks of one node on this machine. `plan` is called before every
/// start with the number of restarts so far. Returns the exit code of the job:
/// 0, that of the rank that failed first (128 plus the signal that killed it),
/// or 128 plus the signal that told this process to stop. When it returns, no
/// process that the ranks have started is still running.
///
/// While it runs it reaps every child of this process and treats INT, TERM and
/// HUP as requests to stop. Before it returns it kills all descendants that did
/// not exist before.
int run_node(
    const std::function<NodePlan(int restarts)>& plan,
    const JobOptions& options,
    const Logger& logger);

/// Runs one launcher per host (the same program with `is_node_launcher`);
/// otherwise like run_node().
int run_hosts(
    const std::function<std::vector<HostCommand>(int restarts)>& plan,
    const JobOptions& options,
    const Logger& logger);

} // namespace cairn::launch
