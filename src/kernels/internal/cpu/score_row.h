#pragma once

#include <cstdint>

// Steps from a row of scores to its softmax; exist where has_matrix_product()
// is true.

namespace cairn::kernels::cpu {

/// The largest of `count` values; -inf if there are none.
float highest_of(const float* x, std::int64_t count);

/// x = e^(scale x - shift) for the first `seen` of `count` values, zero for the
/// rest; returns the sum.
float exponentials(
    float* x,
    std::int64_t seen,
    std::int64_t count,
    float scale,
    float shift);

} // namespace cairn::kernels::cpu
