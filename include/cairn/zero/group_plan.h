#pragma once

#include <cairn/zero/policy.h>

#include <vector>

namespace cairn::zero {

/// With whom a rank shares what, as ranks of all that train the same
/// parameters. A plain value; neighbours form a group, so with as many ranks
/// to a group as a node has, a group stays within the node.
struct GroupPlan {
  std::vector<int> shards;   ///< share one copy of what is partitioned
  std::vector<int> replicas; ///< own the same shard, each of its own copy
  /// Neighbours within `shards` that share a second copy, or a node of a
  /// gather in two hops; alone: there is neither.
  std::vector<int> inner;
  std::vector<int> outer; ///< have the same place in theirs; alone: likewise
  bool operator==(const GroupPlan&) const = default;
};

/// Throws ConfigError where the policy's groups do not divide the ranks.
GroupPlan group_plan(const Policy& policy, int ranks, int rank);

/// Policy::gather_ranks, where nodes have `node_ranks` each: 0 if groups of
/// `shard_ranks` stay within a node. `global_ranks`: of all that train the same
/// parameters. Throws ConfigError where nodes have unequal parts of a group.
int gather_ranks(
    const std::vector<int>& global_ranks,
    int shard_ranks,
    int node_ranks);

} // namespace cairn::zero
