#include "zero/internal/bucket_limit.h"

#include <algorithm>

namespace cairn::zero {

std::int64_t bucket_limit(
    const config::ZeroConfig& settings,
    const Policy& policy) {
  std::int64_t limit =
      std::min(settings.reduce_bucket_size, settings.allgather_bucket_size);
  if (policy.partition_parameters) {
    constexpr std::int64_t always_fits = 16'000'000;
    limit =
        std::min(limit, std::max(always_fits, settings.prefetch_bucket_size));
  }
  if (policy.parameter_tier == Tier::nvme) {
    limit = std::min(limit, settings.offload_param->buffer_size);
  }
  return limit;
}

} // namespace cairn::zero
