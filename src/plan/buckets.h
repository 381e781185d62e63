#pragma once

#include <cairn/plan/estimate.h>

#include <cstdint>

namespace cairn::plan {

/// Elements of the buckets in which gradients are reduced and weights gathered,
/// where a rank holds so many parameters.
double bucket_elements(
    const Training& training,
    const RunLayout& layout,
    double held);

/// Number of the buckets.
double buckets_of(
    const Training& training,
    const RunLayout& layout,
    double held);

} // namespace cairn::plan
