#pragma once

#include <cairn/distributed/process_group.h>
#include <cairn/zero/layout.h>

#include <utility>

namespace cairn::zero {

/// Who shares the buckets: all ranks, or fewer for those of experts that ranks
/// have shared out among themselves.
class BucketGroups {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): most have one group for all
  BucketGroups(distributed::ProcessGroup all) : all_(all), experts_(all) {}
  BucketGroups(distributed::ProcessGroup all, distributed::ProcessGroup experts)
      : all_(std::move(all)), experts_(std::move(experts)) {}

  const distributed::ProcessGroup& all() const { return all_; }
  const distributed::ProcessGroup& experts() const { return experts_; }
  const distributed::ProcessGroup& of(const Bucket& bucket) const {
    return bucket.expert ? experts_ : all_;
  }

 private:
  distributed::ProcessGroup all_;
  distributed::ProcessGroup experts_; ///< a part of the other, or the same
};

} // namespace cairn::zero
