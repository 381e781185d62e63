#pragma once

#include "zero/tiers/shard_tier.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace cairn::zero {

/// A tier with room for so many elements of weights.
struct TierPlace {
  std::unique_ptr<ShardTier> tier;
  std::int64_t elements = 0;
};

/// Several tiers as one. A bucket is put into the first place that has room for
/// it; the last place has room for all.
std::unique_ptr<ShardTier> make_divided_tier(std::vector<TierPlace> places);

} // namespace cairn::zero
