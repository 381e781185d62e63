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
  const float32x4_t less = vdupq_n_f32(-shift);
  float32x4_t sum = vdupq_n_f32(0);
  std::int64_t i = 0;
  for (; i + 4 <= seen; i += 4) {
    const float32x4_t e = exp4(vfmaq_n_f32(less, vld1q_f32(x + i), scale));
    vst1q_f32(x + i, e);
    sum = vaddq_f32(sum, e);
  }
  float total = vaddvq_f32(sum);
  for (; i < seen; ++i) {
    x[i] = vgetq_lane_f32(exp4(vdupq_n_f32(scale * x[i] - shift)), 0);
    total += x[i];
  }
  std::fill(x + seen, x + count, 0.0F);
  return total;
}

} // namespace cairn::kernels::cpu
