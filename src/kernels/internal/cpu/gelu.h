#pragma once

#include <cstdint>

// GELU and its derivative in one pass; exists where has_matrix_product() is
// true.

namespace cairn::kernels::cpu {

enum class Gelu { exact, tanh };

/// y = gelu(x), and, unless `slope` is null, slope = gelu'(x), which costs
/// little extra.
void gelu(
    Gelu kind,
    const float* x,
    float* y,
    float* slope,
    std::int64_t count);

} // namespace cairn::kernels::cpu
