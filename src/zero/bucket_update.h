#pragma once

#include "zero/bucket_shard.h"
#include "zero/rank_groups.h"

#include <cairn/optim/rule.h>
#include <cairn/zero/layout.h>

#include <memory>
#include <span>

namespace cairn::zero {

/// Applies a rule to a rank's part of a bucket, talking to the other owners
/// where the rule looks at whole parameters.
class BucketUpdate {
 public:
  virtual ~BucketUpdate() = default;
  virtual void update(
      const BucketShard& shard,
      std::span<const optim::GroupValues> groups,
      const optim::StepValues& step) const = 0;
};

/// `owners`: the ranks that share each bucket; groups of one where every rank
/// updates all of it. Layout and rule outlive the update.
std::unique_ptr<BucketUpdate> make_bucket_update(
    const Layout& layout,
    const optim::Rule& rule,
    const RankGroups& owners);

// What it chooses from, by the rule's scope.
std::unique_ptr<BucketUpdate> make_elementwise_update(
    const Layout& layout,
    const optim::Rule& rule);
std::unique_ptr<BucketUpdate> make_lamb_update(
    const Layout& layout,
    const optim::Rule& rule,
    const RankGroups& owners);
std::unique_ptr<BucketUpdate> make_muon_update(
    const Layout& layout,
    const optim::Rule& rule,
    const RankGroups& owners);

} // namespace cairn::zero
