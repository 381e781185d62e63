#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/internal/cuda/text_rows.h"

#include <cstdint>

namespace cairn::kernels::cuda {

/// Mean and 1 / standard deviation of a row.
struct RowScale {
  float mean;
  float inverse;
};

/// The sums of one thread's share of a row: of distances from the row's first
/// value, and of their squares. One pass is enough then, although the mean may
/// be far from zero.
struct RowSums {
  float origin;
  Pair sums{0, 0};

  template <int width>
  __device__ void add(const Lane (&values)[width]) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float distance = values[k].value - origin;
      sums.first += distance;
      sums.second += distance * distance;
    }
  }

  /// The row's scale, when the sums are those of all of its columns.
  __device__ RowScale scale(const TextNorm& norm, float columns) const {
    const float shift = norm.centred ? sums.first / columns : 0;
    const float spread = sums.second / columns - shift * shift;
    const float variance = spread < 0 ? 0 : spread; // NaN stays
    return {origin + shift, rsqrtf(variance + norm.epsilon)};
  }
};

template <Element element>
__device__ RowSums
sums_from(const void* x, std::int64_t begin, const TextNorm& norm) {
  Lane first[1];
  first[0].value = 0;
  if (norm.centred) {
    load(x, element, begin, first);
  }
  return {first[0].value};
}

/// Turns values of a row, from `column` on, into their norms.
template <Element element, int width>
__device__ void normalize_values(
    Lane (&values)[width],
    const RowScale& scale,
    const TextNorm& norm,
    std::int64_t column) {
  Lane gamma[width];
  Lane beta[width];
  load(norm.gamma, element, column, gamma);
  if (norm.beta != nullptr) {
    load(norm.beta, element, column, beta);
  }
#pragma unroll
  for (int k = 0; k < width; ++k) {
    values[k].value =
        (values[k].value - scale.mean) * scale.inverse * gamma[k].value +
        (norm.beta != nullptr ? beta[k].value : 0);
  }
}

} // namespace cairn::kernels::cuda
