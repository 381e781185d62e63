#pragma once

#include <cairn/base/log.h>
#include <cairn/launch/node_plan.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace cairn::launch {

/// How a job is run, whatever it consists of.
struct JobOptions {
  int max_restarts = 0;
  /// Before the first restart; twice as long before each further one.
  std::chrono::milliseconds first_delay{1000};
  std::chrono::milliseconds longest_delay{60000};
  /// How long a rank that was asked to stop may take before SIGKILL.
  std::chrono::milliseconds grace{5000};
  std::filesystem::path log_dir; ///< for rank_N.log; empty: none
  bool colour = false;           ///< of the labels before the lines
  /// Another launcher has started this one and reads its stdout and stderr: the
  /// job stops when stdin ends.
  bool is_node_launcher = false;
};

/// A launcher to be run for one host, from here.
struct HostCommand {
  std::string host;
  std::vector<std::string> command;
};

/// Throws ConfigError when a rank's program is not to be found here.
void check_program(const NodePlan& plan);

/// Runs the ranks of one node, here. `plan` is asked before every start, with
/// the number of restarts so far. Returns the exit code of the job: 0, that of
/// the rank that failed first (128 plus the signal that killed it), or 128 plus
/// the signal that this process was told to stop with. When it returns, nothing
/// that the ranks have started runs any more.
///
/// While it runs it reaps every child of this process and takes INT, TERM and
/// HUP as requests to stop; before it returns it kills all descendants that
/// were not there before.
int run_node(
    const std::function<NodePlan(int restarts)>& plan,
    const JobOptions& options,
    const Logger& logger);

/// Runs one launcher per host (each the same program with
/// `is_node_launcher`), and is otherwise as `run_node`.
int run_hosts(
    const std::function<std::vector<HostCommand>(int restarts)>& plan,
    const JobOptions& options,
    const Logger& logger);

} // namespace cairn::launch
