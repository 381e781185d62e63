#include "plan/buckets.h"

#include "plan/stage_shares.h"
#include "zero/internal/layout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

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
    double held,
    std::size_t tensors) {
  if (held <= 0 || tensors == 0) {
    return 1;
  }
  return std::min(
      std::ceil(held / bucket_elements(training, layout, held)),
      static_cast<double>(tensors));
}

} // namespace cairn::plan
