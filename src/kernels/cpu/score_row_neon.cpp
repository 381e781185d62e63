#include "kernels/cpu/score_row.h"

#include "kernels/cpu/exp_neon.h"

#include <algorithm>
#include <limits>

namespace cairn::kernels::cpu {

float highest_of(const float* x, std::int64_t count) {
  float32x4_t high = vdupq_n_f32(-std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    high = vmaxq_f32(high, vld1q_f32(x + i));
  }
  float highest = vmaxvq_f32(high);
  for (; i < count; ++i) {
    highest = std::max(highest, x[i]);
  }
  return highest;
}

float exponentials(
    float* x,
    std::int64_t seen,
    std::int64_t count,
    float scale,
    float shift) {
  constexpr int vectors = 4;
  const float32x4_t less = vdupq_n_f32(-shift);
  float32x4_t sums[vectors] = {};
  std::int64_t i = 0;
  for (; i + 4 * vectors <= seen; i += 4 * vectors) {
    float32x4_t e[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      e[v] = vfmaq_n_f32(less, vld1q_f32(x + i + 4 * v), scale);
    }
    exp_of(e);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      vst1q_f32(x + i + 4 * v, e[v]);
      sums[v] = vaddq_f32(sums[v], e[v]);
    }
  }
  float total = vaddvq_f32(
      vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3])));
  for (; i < seen; ++i) {
    x[i] = vgetq_lane_f32(exp4(vdupq_n_f32(scale * x[i] - shift)), 0);
    total += x[i];
  }
  std::fill(x + seen, x + count, 0.0F);
  return total;
}

} // namespace cairn::kernels::cpu
