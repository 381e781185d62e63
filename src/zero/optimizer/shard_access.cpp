#include "zero/optimizer/shard_access.h"

#include <utility>

namespace cairn::zero {

ShardAccess::ShardAccess(
    const Layout& layout,
    FlatParameters& parameters,
    RankGroups owners,
    bool partition)
    : layout_(layout),
      parameters_(parameters),
      owners_(std::move(owners)),
      partition_(partition && owners_.shards.size() > 1) {}

Range ShardAccess::range(int bucket) const {
  const Bucket& plan = layout_.buckets()[bucket];
  return partition_ ? layout_.shard(bucket, owners_.sharers(plan).rank())
                    : Range{0, plan.elements};
}

bool ShardAccess::is_shard(int bucket) const {
  return partition_ || parameters_.partitioned(bucket);
}

at::Tensor ShardAccess::open(int bucket, bool blank) {
  if (!is_shard(bucket)) {
    return parameters_.whole(bucket);
  }
  return blank ? parameters_.acquire_blank_shard(bucket)
               : parameters_.acquire_shard(bucket);
}

void ShardAccess::close(int bucket, bool changed) {
  if (is_shard(bucket)) {
    parameters_.give_back_shard(bucket, changed);
  }
}

bool ShardAccess::keeps_memory(int bucket) const {
  return !is_shard(bucket) || parameters_.keeps_shard(bucket);
}

bool ShardAccess::is_published(int bucket) const {
  return partition_ && !parameters_.partitioned(bucket);
}

} // namespace cairn::zero
