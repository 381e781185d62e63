#pragma once

#include "zero/internal/policy.h"

#include <cairn/config/zero_config.h>

#include <cstdint>

namespace cairn::zero {

/// The most elements of a bucket that the configuration allows. Gradients are
/// reduced and weights gathered by the same buckets. At stage 3 a bucket is no
/// larger than what may be gathered ahead.
std::int64_t bucket_limit(
    const config::ZeroConfig& settings,
    const Policy& policy);

} // namespace cairn::zero
