#include "plan/buckets.h"

#include "plan/stage_shares.h"
#include "zero/internal/layout.h"

#include <algorithm>
#include <cmath>

namespace cairn::plan {

double bucket_elements(
    const Training& training,
    const RunLayout& layout,
    double held) {
  const double wanted = training.program.bucket_elements > 0
      ? training.program.bucket_elements
      : static_cast<double>(zero::bucket_capacity(
            static_cast<std::int64_t>(held),
            training.program.bucket_limit,
            static_cast<int>(shard_ranks(layout))));
  return std::min(wanted, held);
}

double buckets_of(
    const Training& training,
    const RunLayout& layout,
    double held) {
  return held > 0 ? std::ceil(held / bucket_elements(training, layout, held))
                  : 1;
}

} // namespace cairn::plan
