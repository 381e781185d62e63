#include "zero/internal/rank_groups.h"

#include "distributed/internal/partition.h"

#include <map>
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
        : distributed::partition(all, ranks, name);
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

RankGroups second_groups(const RankGroups& groups) {
  std::map<std::vector<int>, distributed::ProcessGroup> made;
  const auto second = [&](const distributed::ProcessGroup& group) {
    if (group.size() == 1) {
      return group;
    }
    const auto found = made.find(group.global_ranks());
    return found != made.end()
        ? found->second
        : made.emplace(group.global_ranks(), distributed::second_group(group))
              .first->second;
  };
  RankGroups result = groups;
  // `all` and `replicas` gather nothing.
  result.shards = second(groups.shards);
  result.experts = second(groups.experts);
  result.inner = second(groups.inner);
  result.outer = second(groups.outer);
  return result;
}

} // namespace cairn::zero
