#pragma once

#include <cairn/plan/estimate.h>

#include <cstddef>

namespace cairn::plan {

/// Elements of the buckets in which gradients are reduced and weights gathered,
/// where a rank holds so many parameters.
double bucket_elements(
    const Training& training,
    const RunLayout& layout,
    double held);

/// Number of the buckets of so many parameters in so many tensors: a bucket has
/// whole tensors.
double buckets_of(
    const Training& training,
    const RunLayout& layout,
    double held,
    std::size_t tensors);

} // namespace cairn::plan
