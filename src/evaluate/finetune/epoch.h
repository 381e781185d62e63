#pragma once

#include <cstdint>
#include <vector>

namespace cairn::evaluate {

/// The cut of an epoch into updates, and of those into the ranks' micro
/// batches. Each update takes the next samples of the epoch's order; within a
/// micro batch the ranks take turns, as with torch's DistributedSampler.
struct EpochPlan {
  std::int64_t samples = 0;
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1; ///< micro batches of an update
  std::int64_t ranks = 1;        ///< those with different samples
  std::int64_t rank = 0;
  /// True: a last update takes what is left, though it is less.
  bool keep_last = false;

  std::int64_t batch() const { return micro_batch * accumulation * ranks; }
  std::int64_t updates() const;
  /// Samples of an update of the epoch, counted from 0.
  std::int64_t samples_of(std::int64_t update) const;
  /// Places in the epoch's order of this rank's micro batch; at or above
  /// `samples` where there is none.
  std::vector<std::int64_t> places(
      std::int64_t update,
      std::int64_t micro_batch_number) const;
};

/// The order of the samples in an epoch: torch.randperm with a generator of
/// that seed, as torch's DistributedSampler shuffles.
std::vector<std::int64_t> shuffled(std::int64_t samples, std::uint64_t seed);

} // namespace cairn::evaluate
