#include "kernels/cpu/gelu.h"

#include "kernels/cpu/exp_neon.h"

#include <cstring>

namespace cairn::kernels::cpu {
namespace {

float32x4_t constant(float x) {
  return vdupq_n_f32(x);
}

/// What 1 is divided by for the logistic function of x.
float32x4_t one_plus_exp_of_minus(float32x4_t x) {
  return vaddq_f32(constant(1), exp4(vnegq_f32(x)));
}

/// 0.5 (1 + erf(x / sqrt 2)) and, with the same e^(-x^2 / 2), its derivative.
struct Normal {
  float32x4_t below;   ///< the share of a normal distribution below x
  float32x4_t density; ///< at x
};

/// Abramowitz and Stegun 7.1.26, to 1.5e-7.
Normal normal(float32x4_t x) {
  const float32x4_t size = vmulq_n_f32(vabsq_f32(x), 0.70710678F);
  const float32x4_t t =
      vdivq_f32(constant(1), vfmaq_n_f32(constant(1), size, 0.3275911F));
  float32x4_t p = constant(1.061405429F);
  p = vfmaq_f32(constant(-1.453152027F), p, t);
  p = vfmaq_f32(constant(1.421413741F), p, t);
  p = vfmaq_f32(constant(-0.284496736F), p, t);
  p = vfmaq_f32(constant(0.254829592F), p, t);
  const float32x4_t e = exp4(vnegq_f32(vmulq_f32(size, size)));
  const float32x4_t tail =
      vmulq_f32(vmulq_n_f32(vmulq_f32(p, t), 0.5F), e); // above |x|
  const float32x4_t below =
      vbslq_f32(vcltq_f32(x, constant(0)), tail, vsubq_f32(constant(1), tail));
  return {below, vmulq_n_f32(e, 0.39894228F)};
}

// Half the argument's slope: gelu(x) is about x sigmoid(2 k (x + c x^3)).
constexpr float twice_k = 2 * 0.79788456F;
constexpr float c = 0.044715F;

struct ValueAndSlope {
  float32x4_t value;
  float32x4_t slope;
};

struct TanhGelu {
  static ValueAndSlope both(float32x4_t x) {
    const float32x4_t s =
        vdivq_f32(constant(1), one_plus_exp_of_minus(argument(x)));
    // s + x s (1 - s) 2k (1 + 3 c x^2)
    const float32x4_t inner =
        vmulq_n_f32(vfmaq_n_f32(constant(1), vmulq_f32(x, x), 3 * c), twice_k);
    const float32x4_t rest = vmulq_f32(x, vsubq_f32(constant(1), s));
    return {vmulq_f32(x, s), vmulq_f32(s, vfmaq_f32(constant(1), rest, inner))};
  }

 private:
  static float32x4_t argument(float32x4_t x) {
    return vmulq_f32(
        vmulq_n_f32(x, twice_k),
        vfmaq_n_f32(constant(1), vmulq_f32(x, x), c));
  }
};

struct ExactGelu {
  static ValueAndSlope both(float32x4_t x) {
    const Normal n = normal(x);
    return {vmulq_f32(x, n.below), vfmaq_f32(n.below, x, n.density)};
  }
};

/// Calls body(i, n) for the n values from i on, four but at the end.
template <typename Body>
void by_four(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) { // two at a time: each is a long chain
    body(i, 4);
    body(i + 4, 4);
  }
  for (; i + 4 <= count; i += 4) {
    body(i, 4);
  }
  if (i < count) {
    body(i, count - i);
  }
}

float32x4_t load(const float* from, std::int64_t n) {
  if (n == 4) {
    return vld1q_f32(from);
  }
  float four[4] = {};
  std::memcpy(four, from, n * sizeof(float));
  return vld1q_f32(four);
}

void store(float* to, float32x4_t x, std::int64_t n) {
  if (n == 4) {
    vst1q_f32(to, x);
    return;
  }
  float four[4];
  vst1q_f32(four, x);
  std::memcpy(to, four, n * sizeof(float));
}

template <typename Kind>
void values(const float* x, float* y, float* slope, std::int64_t count) {
  if (slope == nullptr) {
    by_four(count, [&](std::int64_t i, std::int64_t n) {
      store(y + i, Kind::both(load(x + i, n)).value, n);
    });
    return;
  }
  by_four(count, [&](std::int64_t i, std::int64_t n) {
    const ValueAndSlope both = Kind::both(load(x + i, n));
    store(y + i, both.value, n);
    store(slope + i, both.slope, n);
  });
}

} // namespace

void gelu(
    Gelu kind,
    const float* x,
    float* y,
    float* slope,
    std::int64_t count) {
  kind == Gelu::exact ? values<ExactGelu>(x, y, slope, count)
                      : values<TanhGelu>(x, y, slope, count);
}

} // namespace cairn::kernels::cpu
