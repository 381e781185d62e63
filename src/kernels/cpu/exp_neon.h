#pragma once

#include <arm_neon.h>

namespace cairn::kernels::cpu {

/// x = e^x of n vectors, to 2 units in the last place, for x from -87.3 to
/// 88.3. Beyond that range the result is that of the nearer end: almost 0, or
/// 2e38. nan stays nan.
///
/// Each step is done for all vectors before the next: for one vector alone
/// every operation would wait for the one before.
template <int n>
[[gnu::always_inline]] inline void exp_of(float32x4_t (&x)[n]) {
  float32x4_t whole[n];
  float32x4_t p[n];
  const auto each = [](auto&& step) {
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) {
      step(i);
    }
  };
  const auto next = [&](float coefficient) {
    each(
        [&](int i) { p[i] = vfmaq_f32(vdupq_n_f32(coefficient), p[i], x[i]); });
  };
  each([&](int i) {
    x[i] = vminq_f32(vmaxq_f32(x[i], vdupq_n_f32(-87.3F)), vdupq_n_f32(88.3F));
  });
  // e^x = 2^n e^r with |r| <= ln 2 / 2; ln 2 in two parts, so that r is exact.
  each([&](int i) { whole[i] = vrndnq_f32(vmulq_n_f32(x[i], 1.44269504F)); });
  each([&](int i) { x[i] = vfmsq_n_f32(x[i], whole[i], 0.693359375F); });
  each([&](int i) { x[i] = vfmsq_n_f32(x[i], whole[i], -2.12194440e-4F); });
  each([&](int i) { p[i] = vdupq_n_f32(1.9875691500e-4F); });
  next(1.3981999507e-3F);
  next(8.3334519073e-3F);
  next(4.1665795894e-2F);
  next(1.6666665459e-1F);
  next(5.0000001201e-1F);
  each([&](int i) {
    p[i] =
        vaddq_f32(vfmaq_f32(x[i], vmulq_f32(x[i], x[i]), p[i]), vdupq_n_f32(1));
  });
  each([&](int i) {
    const int32x4_t exponent =
        vaddq_s32(vcvtq_s32_f32(whole[i]), vdupq_n_s32(127));
    x[i] = vmulq_f32(p[i], vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
  });
}

/// e^x of one vector.
inline float32x4_t exp4(float32x4_t x) {
  float32x4_t one[1] = {x};
  exp_of(one);
  return one[0];
}

} // namespace cairn::kernels::cpu
