#pragma once

#include <cairn/launch/hostfile.h>
#include <cairn/launch/machine.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn::launch {

/// Which ranks there are and where they meet. Ranks are counted host by host,
/// slot by slot.
struct World {
  std::vector<Host> hosts;
  std::string master_addr;
  /// None: whoever starts the job picks a free port, which is only possible
  /// while all ranks are on one host.
  std::optional<int> master_port;

  int size() const;
  int first_rank_of(int node) const;
};

/// The port where several hosts meet when none is asked for, as DeepSpeed's.
inline constexpr int default_master_port = 29500;
inline constexpr const char* default_hostfile = "/job/hostfile";

/// What the command line says about hosts and ranks.
struct WorldOptions {
  std::string hostfile; ///< empty: /job/hostfile where that exists
  std::string include;
  std::string exclude;
  std::optional<int> nodes;
  std::optional<int> ranks_per_node;
  std::optional<int> node_rank;
  std::string master_addr;
  std::optional<int> master_port;
};

/// Puts the options together; a ConfigError when they contradict each other or
/// ask for more than there is. `machine` is this one, on which everything runs
/// when no host is named.
World choose_world(const WorldOptions& options, const Machine& machine);

} // namespace cairn::launch
