#pragma once

#include <arm_neon.h>

namespace cairn::kernels::cpu {

/// e^x of four values, to 2 units in the last place, for x from -87.3 to 88.3;
/// outside as at the nearer end: next to 0, or 2e38. nan stays nan.
inline float32x4_t exp4(float32x4_t x) {
  x = vminq_f32(vmaxq_f32(x, vdupq_n_f32(-87.3F)), vdupq_n_f32(88.3F));
  // e^x = 2^n e^r with |r| <= ln 2 / 2; ln 2 in two parts, so that r is exact.
  const float32x4_t n = vrndnq_f32(vmulq_n_f32(x, 1.44269504F));
  float32x4_t r = vfmsq_n_f32(x, n, 0.693359375F);
  r = vfmsq_n_f32(r, n, -2.12194440e-4F);
  float32x4_t p = vdupq_n_f32(1.9875691500e-4F);
  p = vfmaq_f32(vdupq_n_f32(1.3981999507e-3F), p, r);
  p = vfmaq_f32(vdupq_n_f32(8.3334519073e-3F), p, r);
  p = vfmaq_f32(vdupq_n_f32(4.1665795894e-2F), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.6666665459e-1F), p, r);
  p = vfmaq_f32(vdupq_n_f32(5.0000001201e-1F), p, r);
  p = vaddq_f32(vfmaq_f32(r, vmulq_f32(r, r), p), vdupq_n_f32(1));
  const int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
  return vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
}

} // namespace cairn::kernels::cpu
