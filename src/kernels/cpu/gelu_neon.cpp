#include "kernels/cpu/exp_neon.h"
#include "kernels/internal/cpu/gelu.h"

#include <cstring>

// Sixteen values are computed at a time: with one alone, every operation would
// wait for the one before.

namespace cairn::kernels::cpu {
namespace {

constexpr int vectors = 4;
constexpr int block = 4 * vectors;

using Values = float32x4_t[vectors];

float32x4_t constant(float x) {
  return vdupq_n_f32(x);
}

template <typename Step>
[[gnu::always_inline]] inline void each(const Step& step) {
#pragma GCC unroll 4
  for (int i = 0; i < vectors; ++i) {
    step(i);
  }
}

/// x = 1 / x, accurate to some units in the last place and faster than a
/// division; 0 for infinite and nearly infinite x.
[[gnu::always_inline]] inline void invert(Values& x) {
  Values r;
  each([&](int i) { r[i] = vrecpeq_f32(x[i]); });
  each([&](int i) { r[i] = vmulq_f32(r[i], vrecpsq_f32(x[i], r[i])); });
  each([&](int i) { x[i] = vmulq_f32(r[i], vrecpsq_f32(x[i], r[i])); });
}

/// The tanh approximation: gelu(x) is about x logistic(2 k (x + c x^3)).
struct TanhGelu {
  static constexpr float twice_k = 2 * 0.79788456F;
  static constexpr float c = 0.044715F;

  [[gnu::always_inline]] static void values(
      const Values& x,
      Values& y,
      Values& slope) {
    Values square;
    Values s;
    each([&](int i) { square[i] = vmulq_f32(x[i], x[i]); });
    each([&](int i) {
      s[i] = vmulq_f32(
          vmulq_n_f32(x[i], -twice_k),
          vfmaq_n_f32(constant(1), square[i], c));
    });
    exp_of(s); // below 2e38, so adding 1 cannot overflow
    each([&](int i) { s[i] = vaddq_f32(constant(1), s[i]); });
    invert(s);
    each([&](int i) { y[i] = vmulq_f32(x[i], s[i]); });
    // s + x s (1 - s) 2k (1 + 3 c x^2)
    each([&](int i) {
      const float32x4_t inner =
          vmulq_n_f32(vfmaq_n_f32(constant(1), square[i], 3 * c), twice_k);
      const float32x4_t rest = vmulq_f32(x[i], vsubq_f32(constant(1), s[i]));
      slope[i] = vmulq_f32(s[i], vfmaq_f32(constant(1), rest, inner));
    });
  }
};

/// The exact GELU: x times the normal distribution function, by Abramowitz and
/// Stegun 7.1.26, to 1.5e-7.
struct ExactGelu {
  [[gnu::always_inline]] static void values(
      const Values& x,
      Values& y,
      Values& slope) {
    Values size;
    Values t;
    Values p;
    Values e;
    each([&](int i) { size[i] = vmulq_n_f32(vabsq_f32(x[i]), 0.70710678F); });
    each([&](int i) { t[i] = vfmaq_n_f32(constant(1), size[i], 0.3275911F); });
    invert(t);
    each([&](int i) { e[i] = vnegq_f32(vmulq_f32(size[i], size[i])); });
    exp_of(e);
    const auto next = [&](float coefficient) {
      each([&](int i) { p[i] = vfmaq_f32(constant(coefficient), p[i], t[i]); });
    };
    each([&](int i) { p[i] = constant(1.061405429F); });
    next(-1.453152027F);
    next(1.421413741F);
    next(-0.284496736F);
    next(0.254829592F);
    each([&](int i) {
      const float32x4_t above =
          vmulq_f32(vmulq_n_f32(vmulq_f32(p[i], t[i]), 0.5F), e[i]);
      const float32x4_t below = vbslq_f32(
          vcltq_f32(x[i], constant(0)),
          above,
          vsubq_f32(constant(1), above));
      const float32x4_t density = vmulq_n_f32(e[i], 0.39894228F);
      y[i] = vmulq_f32(x[i], below);
      slope[i] = vfmaq_f32(below, x[i], density);
    });
  }
};

/// Computes y for sixteen values, and their slopes unless `slope` is null.
template <typename Kind>
[[gnu::always_inline]] inline void block_of(
    const float* x,
    float* y,
    float* slope) {
  Values in;
  Values out;
  Values slopes;
  each([&](int i) { in[i] = vld1q_f32(x + 4 * i); });
  Kind::values(in, out, slopes);
  each([&](int i) { vst1q_f32(y + 4 * i, out[i]); });
  if (slope != nullptr) {
    each([&](int i) { vst1q_f32(slope + 4 * i, slopes[i]); });
  }
}

template <typename Kind>
void all_of(const float* x, float* y, float* slope, std::int64_t count) {
  std::int64_t i = 0;
  if (slope != nullptr) {
    for (; i + block <= count; i += block) {
      block_of<Kind>(x + i, y + i, slope + i);
    }
  } else {
    for (; i + block <= count; i += block) {
      block_of<Kind>(x + i, y + i, nullptr);
    }
  }
  if (const std::int64_t rest = count - i; rest > 0) {
    float last[block] = {};
    float values[block];
    float slopes[block];
    std::memcpy(last, x + i, rest * sizeof(float));
    block_of<Kind>(last, values, slopes);
    std::memcpy(y + i, values, rest * sizeof(float));
    if (slope != nullptr) {
      std::memcpy(slope + i, slopes, rest * sizeof(float));
    }
  }
}

} // namespace

void gelu(
    Gelu kind,
    const float* x,
    float* y,
    float* slope,
    std::int64_t count) {
  kind == Gelu::exact ? all_of<ExactGelu>(x, y, slope, count)
                      : all_of<TanhGelu>(x, y, slope, count);
}

} // namespace cairn::kernels::cpu
