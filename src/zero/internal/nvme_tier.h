#pragma once

#include "zero/tiers/shard_tier.h"

#include <cairn/base/log.h>
#include <cairn/config/zero_config.h>

#include <cstdint>
#include <filesystem>
#include <memory>

namespace cairn::zero {

struct NvmeTierOptions {
  std::filesystem::path folder;
  config::AioConfig aio;
  int buffers = 4; ///< buckets that may be in memory at a time, at least 2
  std::int64_t needed_bytes = 0; ///< for all ranks that use the folder
  bool pin = false;          ///< page-locks the buffers, for copies to a GPU
  bool reads_ahead = true;   ///< while the bucket before is in use
  bool writes_behind = true; ///< while the next bucket is in use
  /// Leaves out the first writing of states that are zero, as the file is.
  bool fast_init = false;
};

/// A tier on a fast disk. Checks the folder first and logs the result.
std::unique_ptr<ShardTier> make_nvme_tier(
    const NvmeTierOptions& options,
    const Logger& logger);

} // namespace cairn::zero
