#pragma once

#include "zero/tiers/shard_tier.h"

#include <c10/core/Device.h>

#include <memory>

namespace cairn::zero {

struct VisitingTierOptions {
  at::Device device{at::kCPU};
  int buffers = 4; ///< buckets that may be on the device at a time, at least 2
  bool pin = true; ///< page-locks host memory, for copies beside other work
};

/// A tier in the host's memory whose tensors visit a device to be updated: a
/// bucket arrives while the one before it is updated, and departs while the
/// next ones are. Both ways run at the same time.
std::unique_ptr<ShardTier> make_visiting_tier(
    const VisitingTierOptions& options);

} // namespace cairn::zero
