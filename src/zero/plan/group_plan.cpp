#include "zero/internal/group_plan.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace cairn::zero {

namespace {

std::vector<int> every(int first, int step, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) {
    ranks.push_back(first + i * step);
  }
  return ranks;
}

void need_divisor(std::string_view key, int size, int ranks) {
  if (ranks % size != 0) {
    throw ConfigError(
        {.what = "the groups do not divide the ranks that share the parameters",
         .where = fmt::format("zero_optimization.{}", key),
         .values = fmt::format("groups of {}, {} ranks", size, ranks)});
  }
}

} // namespace

GroupPlan group_plan(const Policy& policy, int ranks, int rank) {
  const int shards = policy.shard_ranks > 0 ? policy.shard_ranks : ranks;
  need_divisor("mics_shard_size", shards, ranks);
  const int first = rank / shards * shards;
  GroupPlan plan{
      .shards = every(first, 1, shards),
      .replicas = every(rank % shards, shards, ranks / shards),
      .inner = {rank},
      .outer = {rank}};
  const int inner = policy.second_copy_ranks > 0 ? policy.second_copy_ranks
                                                 : policy.gather_ranks;
  if (inner > 0) {
    need_divisor("zero_hpz_partition_size", inner, shards);
    const int place = rank - first;
    plan.inner = every(first + place / inner * inner, 1, inner);
    plan.outer = every(first + place % inner, inner, shards / inner);
  }
  return plan;
}

int gather_ranks(
    const std::vector<int>& global_ranks,
    int shard_ranks,
    int node_ranks) {
  const auto node_of = [&](std::size_t member) {
    return global_ranks[member] / std::max(1, node_ranks);
  };
  std::size_t together = 1;
  while (together < global_ranks.size() && node_of(together) == node_of(0)) {
    ++together;
  }
  const auto size = static_cast<std::size_t>(shard_ranks);
  const bool within = together >= size &&
      (together % size == 0 || together == global_ranks.size());
  if (together == 1 || within) {
    return 0;
  }
  bool even = size % together == 0;
  for (std::size_t i = 0; i < global_ranks.size(); ++i) {
    even = even && node_of(i) == node_of(i / together * together) &&
        (i % together != 0 || i == 0 || node_of(i) != node_of(i - 1));
  }
  if (!even) {
    throw ConfigError(
        {.what = "the nodes have unequal parts of a group",
         .where = "zero_optimization.mics_hierarchical_params_gather",
         .values = fmt::format(
             "groups of {}, nodes of {} ranks",
             shard_ranks,
             node_ranks),
         .remedy = "make mics_shard_size a multiple of the ranks on a node"});
  }
  return static_cast<int>(together);
}

} // namespace cairn::zero
