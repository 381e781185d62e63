#include "zero/plan/volume.h"

namespace cairn::zero {

namespace {

/// The contribution of a bucket to each number.
class BucketVolume {
 public:
  BucketVolume(
      const Layout& layout,
      const Policy& policy,
      const VolumeOptions& options,
      int bucket)
      : policy_(policy),
        options_(options),
        bucket_(layout.buckets()[bucket]),
        ranks_(bucket_.expert ? layout.world_of(bucket_) : options.ranks),
        shards_(layout.world_of(bucket_)),
        shard_(bucket_.elements / shards_) {}

  void add_gathers(StepVolume& to, int times) const {
    if (policy_.partition_parameters && !bucket_.persistent) {
      const std::int64_t part = wire_bytes(
          bucket_.trainable ? policy_.weight_wire : policy_.frozen_wire,
          shard_,
          options_.parameter_bytes);
      if (const int node = policy_.gather_ranks; node > 0) {
        to.gather_outer += times * (shards_ / node - 1) * part;
        to.gather_inner += times * (node - 1) * (shards_ / node) * part;
        return;
      }
      const int inner = policy_.second_copy_ranks;
      const int again = inner > 0 && times > 0 ? times - 1 : 0;
      to.gather += (times - again) * (shards_ - 1) * part;
      if (again > 0) {
        to.gather_inner += again * (inner - 1) * (shards_ / inner) * part;
      }
    } else if (policy_.partition_optimizer && bucket_.trainable) {
      to.gather += (shards_ - 1) * shard_ * options_.parameter_bytes;
    }
  }

  void add_reductions(StepVolume& to) const {
    if (!bucket_.trainable) {
      return;
    }
    const std::int64_t shard_bytes = shard_ * options_.gradient_bytes;
    if (!policy_.partition_optimizer) {
      const std::int64_t whole = bucket_.elements * options_.gradient_bytes;
      to.reduce += 2 * (ranks_ - 1) * whole / ranks_;
      return;
    }
    const int rounds = policy_.partition_gradients ? options_.passes : 1;
    if (policy_.gradient_wire != Wire::exact) {
      add_packed_reduction(to, rounds);
    } else {
      to.reduce += rounds * (shards_ - 1) * shard_bytes;
    }
    const int copies = ranks_ / shards_;
    to.reduce_replicas += 2 * (copies - 1) * shard_bytes / copies;
  }

 private:
  void add_packed_reduction(StepVolume& to, int rounds) const {
    const std::int64_t part = wire_bytes(policy_.gradient_wire, shard_, 0);
    const int inner = policy_.second_copy_ranks;
    const bool two_levels = inner > 1 && inner < shards_;
    if (!two_levels) {
      to.reduce += rounds * (shards_ - 1) * part;
      return;
    }
    const int outer = shards_ / inner;
    to.reduce_inner += rounds * (inner - 1) * outer * part;
    to.reduce_outer += rounds * (outer - 1) * part;
  }

  const Policy& policy_;
  const VolumeOptions& options_;
  const Bucket& bucket_;
  int ranks_;
  int shards_;
  std::int64_t shard_;
};

} // namespace

StepVolume step_volume(
    const Layout& layout,
    const Policy& policy,
    const VolumeOptions& options) {
  StepVolume volume;
  for (int b = 0; b < static_cast<int>(layout.buckets().size()); ++b) {
    const BucketVolume bucket(layout, policy, options, b);
    const auto place = static_cast<std::size_t>(b);
    bucket.add_gathers(
        volume,
        options.gathers.empty() ? 2 : options.gathers.at(place));
    bucket.add_reductions(volume);
  }
  return volume;
}

} // namespace cairn::zero
