#pragma once

#include "plan/stage_shares.h"

#include <cairn/pipeline/schedule.h>
#include <cairn/plan/estimate.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace cairn::plan {

/// What estimates of one training have in common, for a search of many.
class EstimatorCache {
 public:
  const std::vector<PartShare>& shares(
      const Training& training,
      const RunLayout& layout);
  const pipeline::Schedule& schedule(
      const RunLayout& layout,
      std::int64_t micro_batches);

 private:
  using Degrees = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  using Order =
      std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Degrees, std::vector<PartShare>> shares_;
  std::map<Order, pipeline::Schedule> schedules_;
};

/// The shares of ranks with or without the padding that zero::Layout gives
/// them, which takes longer to find out.
enum class Padding { exact, left_out };

Estimate estimate_cached(
    EstimatorCache& cache,
    Padding padding,
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster);

} // namespace cairn::plan
