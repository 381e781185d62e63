#include "zero/internal/rank_groups.h"

#include <string>
#include <vector>

namespace cairn::zero {

RankGroups make_rank_groups(
    const distributed::ProcessGroup& all,
    const distributed::ProcessGroup& experts,
    const Policy& policy) {
  const GroupPlan plan = group_plan(policy, all.size(), all.rank());
  const auto bound = [&](const std::vector<int>& ranks, const char* name) {
    if (ranks.size() == 1) {
      return distributed::ProcessGroup();
    }
    return static_cast<int>(ranks.size()) == all.size()
        ? all
        : all.subgroup(ranks, name);
  };
  // Every rank makes the groups in this order.
  RankGroups groups{
      .all = all,
      .experts = experts,
      .has_second_copy = policy.second_copy_ranks > 1,
      .gathers_twice = policy.gather_ranks > 1};
  groups.shards = bound(plan.shards, "zero shards");
  groups.replicas = bound(plan.replicas, "zero replicas");
  groups.inner = bound(plan.inner, "zero inner");
  groups.outer = bound(plan.outer, "zero outer");
  return groups;
}

} // namespace cairn::zero
