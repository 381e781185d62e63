#pragma once

#include "zero/internal/policy.h"

#include <vector>

namespace cairn::zero {

/// The ranks with which a rank shares its state. Ranks are numbered among all
/// that train the same parameters. Neighbours form a group, so with as many
/// ranks to a group as a node has, a group stays within the node.
struct GroupPlan {
  /// Ranks that share one copy of the partitioned state.
  std::vector<int> shards;
  /// Ranks that own the same shard, each in its own copy.
  std::vector<int> replicas;
  /// Neighbours within `shards` that share a second copy of the parameters, or
  /// that are on one node for a gather in two hops; only this rank where there
  /// is neither.
  std::vector<int> inner;
  /// Ranks with the same place in other inner groups; only this rank likewise.
  std::vector<int> outer;
  bool operator==(const GroupPlan&) const = default;
};

/// Plans the groups of `rank`. Throws ConfigError where the policy's groups do
/// not divide the ranks.
GroupPlan group_plan(const Policy& policy, int ranks, int rank);

/// Value of Policy::gather_ranks where nodes have `node_ranks` each: 0 if
/// groups of `shard_ranks` stay within a node. `global_ranks` are all that
/// train the same parameters. Throws ConfigError where nodes have unequal parts
/// of a group.
int gather_ranks(
    const std::vector<int>& global_ranks,
    int shard_ranks,
    int node_ranks);

} // namespace cairn::zero
