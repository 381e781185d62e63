#pragma once

#include <cstdint>

// On the way from a row of scores to its softmax: where has_matrix_product.

namespace cairn::kernels::cpu {

/// -inf of nothing.
float highest_of(const float* x, std::int64_t count);

/// x = e^(scale x - shift), zero behind `seen`; returns the sum.
float exponentials(
    float* x,
    std::int64_t seen,
    std::int64_t count,
    float scale,
    float shift);

} // namespace cairn::kernels::cpu
