#pragma once

#include <cairn/launch/machine.h>
#include <cairn/launch/world.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::launch {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// What every rank runs.
struct Program {
  std::vector<std::string> command;
  /// DeepSpeed's launcher tells a program its place with `--local_rank=N` as
  /// well as through the environment. It goes behind the program's own
  /// arguments, so that `python3 train.py` and other wrappers work too.
  bool takes_local_rank = true;
};

/// One process to be: nothing runs yet.
struct RankPlan {
  int rank = 0;
  int local_rank = 0;
  std::vector<std::string> command;
  Variables environment;  ///< set on top of the launcher's own
  std::vector<int> cores; ///< to bind to; empty: any
};

/// The ranks of one node.
struct NodePlan {
  std::string host;
  int node_rank = 0;
  int restart_count = 0; ///< how often the job has been started before
  std::vector<RankPlan> ranks;
};

struct NodeOptions {
  int master_port = default_master_port;
  int restart_count = 0;
  std::vector<int> bind_cores; ///< shared out among the ranks; empty: not bound
  bool omp_threads_chosen = false; ///< by the user, in OMP_NUM_THREADS
  Variables environment;           ///< set for every rank
};

/// Throws ConfigError where the node has fewer GPUs than slots are used, or
/// fewer cores than ranks are to be bound to.
NodePlan plan_node(
    const World& world,
    int node_rank,
    const Machine& machine,
    const Program& program,
    const NodeOptions& options);

/// Whether ranks find this variable as the launcher sets it, whatever it was.
/// (OMP_NUM_THREADS is the user's where it is set.)
bool is_set_by_launcher(std::string_view variable);

} // namespace cairn::launch
