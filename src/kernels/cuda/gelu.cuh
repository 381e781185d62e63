#pragma once

#include "kernels/cuda/fast_math.cuh"
#include "kernels/internal/cuda/column_sums.h"

namespace cairn::kernels::cuda {

// What the hyperbolic tangent of a GELU is taken of is u = gelu_scale / 2 * x *
// (1 + gelu_cubic * x^2), and (1 + tanh u) / 2 is sigmoid(2 u).
inline constexpr float gelu_scale = 2 * 0.79788456F; // 2 sqrt(2 / pi)
inline constexpr float gelu_cubic = 0.044715F;

__device__ inline float gelu_of(float x, Gelu kind) {
  constexpr float root_half = 0.70710678F;
  return kind == Gelu::exact
      ? 0.5F * x * (1 + erff(x * root_half))
      : x * sigmoid(gelu_scale * x * (1 + gelu_cubic * x * x));
}

__device__ inline float gelu_slope(float x, Gelu kind) {
  if (kind == Gelu::exact) {
    constexpr float root_half = 0.70710678F;
    constexpr float density = 0.39894228F; // 1 / sqrt(2 pi)
    return 0.5F * (1 + erff(x * root_half)) +
        x * density * __expf(-0.5F * x * x);
  }
  const float square = x * x;
  const float s = sigmoid(gelu_scale * x * (1 + gelu_cubic * square));
  return s + x * gelu_scale * (1 + 3 * gelu_cubic * square) * (s - s * s);
}

} // namespace cairn::kernels::cuda
