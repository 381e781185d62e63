#pragma once

#include "zero/tiers/shard_tier.h"

#include <c10/core/Device.h>

#include <memory>

namespace cairn::zero {

struct DiskVisitorOptions {
  at::Device device{at::kCPU};
  /// Where the tensors rest: a tier that gives page-locked host memory, with
  /// four buffers or more.
  std::unique_ptr<ShardTier> disk;
};

/// A tier on a disk whose tensors visit a device to be updated, through the
/// disk's buffers in host memory. The disk is the slow part by far: while it
/// reads the next bucket and writes the one before the last, the device has
/// all the time for one bucket's way in, its update, and its way out.
std::unique_ptr<ShardTier> make_disk_visitor(DiskVisitorOptions options);

} // namespace cairn::zero
