#include "kernels/cpu/exp_neon.h"
#include "kernels/internal/cpu/score_row.h"

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
  constexpr std::int64_t at_once = 4 * vectors;
  constexpr std::int32_t lane[] = {0, 1, 2, 3};
  const float32x4_t less = vdupq_n_f32(-shift);
  float32x4_t sums[vectors] = {};
  // Replaces sixteen values from i on; values at or after `seen` become zero.
  const auto replace = [&](std::int64_t i, bool all_seen) {
    float32x4_t e[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      e[v] = vfmaq_n_f32(less, vld1q_f32(x + i + 4 * v), scale);
    }
    exp_of(e);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      if (!all_seen) {
        const auto left = static_cast<std::int32_t>(seen - i) - 4 * v;
        const uint32x4_t is_seen =
            vcltq_s32(vld1q_s32(lane), vdupq_n_s32(left));
        e[v] = vreinterpretq_f32_u32(
            vandq_u32(vreinterpretq_u32_f32(e[v]), is_seen));
      }
      vst1q_f32(x + i + 4 * v, e[v]);
      sums[v] = vaddq_f32(sums[v], e[v]);
    }
  };
  std::int64_t i = 0;
  for (; i + at_once <= seen; i += at_once) {
    replace(i, true);
  }
  if (i < seen && i + at_once <= count) {
    replace(i, false);
    i += at_once;
  }
  float total = vaddvq_f32(
      vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3])));
  for (; i < seen; ++i) {
    x[i] = vgetq_lane_f32(exp4(vdupq_n_f32(scale * x[i] - shift)), 0);
    total += x[i];
  }
  std::fill(x + i, x + count, 0.0F);
  return total;
}

} // namespace cairn::kernels::cpu
