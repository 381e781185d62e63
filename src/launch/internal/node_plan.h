#pragma once

#include "launch/internal/job_ranks.h"
#include "launch/internal/machine.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::launch {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The program that every rank runs.
struct Program {
  std::vector<std::string> command;
  /// Passes `--local_rank=N` to the program, as DeepSpeed's launcher does in
  /// addition to the environment. The flag comes after the program's own
  /// arguments, so that `python3 train.py` and other wrappers work too.
  bool takes_local_rank = true;
};

/// A process to be started.
struct RankPlan {
  int rank = 0;
  int local_rank = 0;
  std::vector<std::string> command;
  Variables environment;  ///< added to the launcher's own
  std::vector<int> cores; ///< to bind to; empty: any
};

/// The ranks of one node.
struct NodePlan {
  std::string host;
  int node_rank = 0;
  int restart_count = 0; ///< number of earlier starts of the job
  std::vector<RankPlan> ranks;
};

struct NodeOptions {
  int master_port = default_master_port;
  int restart_count = 0;
  /// Cores that are divided among the ranks; empty: ranks are not bound.
  std::vector<int> bind_cores;
  bool omp_threads_chosen = false; ///< the user set OMP_NUM_THREADS
  Variables environment;           ///< set for every rank
  /// True when the ranks, which all have the same slot, share its GPU: each
  /// pretends to be a host of its own (shared_gpu.h).
  bool share_gpu = false;
};

/// Plans the ranks of a node. Throws ConfigError if the node has fewer GPUs
/// than slots are used, or fewer cores than ranks to bind.
NodePlan plan_node(
    const JobRanks& world,
    int node_rank,
    const Machine& machine,
    const Program& program,
    const NodeOptions& options);

/// True for a variable that the launcher sets for the ranks, replacing any
/// value the user gave it. (OMP_NUM_THREADS keeps the user's value.)
bool is_set_by_launcher(std::string_view variable);

} // namespace cairn::launch
