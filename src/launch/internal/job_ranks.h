#pragma once

#include "launch/internal/hostfile.h"
#include "launch/internal/machine.h"

#include <optional>
#include <string>
#include <vector>

namespace cairn::launch {

/// The ranks of a job and where they meet. Ranks are numbered host by host,
/// slot by slot.
struct JobRanks {
  std::vector<Host> hosts;
  std::string master_addr;
  /// The port to meet at. If empty, the process that starts the job picks a
  /// free one, which is possible only while all ranks are on one host.
  std::optional<int> master_port;

  int size() const;
  int first_rank_of(int node) const;
};

/// The default port where several hosts meet, which is also DeepSpeed's.
inline constexpr int default_master_port = 29500;
inline constexpr const char* default_hostfile = "/job/hostfile";

/// The flags of the command line about hosts and ranks.
struct JobRanksOptions {
  std::string hostfile; ///< empty: /job/hostfile if it exists
  std::string include;
  std::string exclude;
  std::optional<int> nodes;
  std::optional<int> ranks_per_node;
  std::optional<int> node_rank;
  std::string master_addr;
  std::optional<int> master_port;
  /// True when all ranks use one GPU of this machine. Each of them then has the
  /// slot of that GPU.
  bool share_gpu = false;
};

/// Combines the options. Throws ConfigError when they contradict each other or
/// ask for more than there is. `machine` is this machine, on which everything
/// runs when no host is named.
JobRanks choose_ranks(const JobRanksOptions& options, const Machine& machine);

} // namespace cairn::launch
