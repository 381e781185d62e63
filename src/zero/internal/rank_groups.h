#pragma once

#include "zero/internal/group_plan.h"
#include "zero/internal/layout.h"

#include <cairn/distributed/process_group.h>

namespace cairn::zero {

/// A GroupPlan bound to real groups, which this rank uses to talk to the
/// others.
struct RankGroups {
  distributed::ProcessGroup all; ///< ranks that train the same parameters
  distributed::ProcessGroup shards;
  distributed::ProcessGroup replicas;
  distributed::ProcessGroup inner;
  distributed::ProcessGroup outer;
  distributed::ProcessGroup experts; ///< ranks that have the same experts
  bool has_second_copy = false;
  /// True when a gather goes between nodes first, then within them.
  bool gathers_twice = false;

  /// The ranks that a bucket is cut over.
  const distributed::ProcessGroup& sharers(const Bucket& bucket) const {
    return bucket.expert ? experts : shards;
  }
  /// The ranks whose gradients of a bucket are summed.
  const distributed::ProcessGroup& trainers(const Bucket& bucket) const {
    return bucket.expert ? experts : all;
  }
};

/// Groups of the same ranks whose calls do not wait for those of `groups`, for
/// gathers of parameters beside reductions of gradients. Every rank of
/// `groups.all` calls it.
RankGroups second_groups(const RankGroups& groups);

/// Makes the groups. Every rank of `all` calls it, with the same policy.
/// `experts` are the ranks that have the same experts.
RankGroups make_rank_groups(
    const distributed::ProcessGroup& all,
    const distributed::ProcessGroup& experts,
    const Policy& policy);

} // namespace cairn::zero
