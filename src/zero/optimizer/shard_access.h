#pragma once

#include "zero/internal/flat_parameters.h"
#include "zero/internal/layout.h"
#include "zero/internal/rank_groups.h"

#include <ATen/core/Tensor.h>

namespace cairn::zero {

/// The part of every bucket that this rank's optimizer updates: a shard, or
/// all of it.
class ShardAccess {
 public:
  /// `partition`: each rank updates a shard. Nothing is partitioned over a
  /// single rank.
  ShardAccess(
      const Layout& layout,
      FlatParameters& parameters,
      RankGroups owners,
      bool partition);

  bool partitions() const { return partition_; }
  const RankGroups& owners() const { return owners_; }
  Range range(int bucket) const;
  /// The parameters that are updated here, in their own type, until close().
  /// `blank`: the caller overwrites them all.
  at::Tensor open(int bucket, bool blank);
  void close(int bucket, bool changed);
  /// True when open() gives the same memory every time.
  bool keeps_memory(int bucket) const;
  /// True when every rank has the whole bucket and updates a part of it, which
  /// the others need after the update (FlatParameters::publish()).
  bool is_published(int bucket) const;

 private:
  bool is_shard(int bucket) const;

  const Layout& layout_;
  FlatParameters& parameters_;
  RankGroups owners_;
  bool partition_;
};

} // namespace cairn::zero
