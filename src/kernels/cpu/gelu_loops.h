#pragma once

#include "kernels/cpu/exp_of.h"
#include "kernels/internal/cpu/gelu.h"

#include <cstdint>

// Several vectors are computed at a time: with one alone, every operation would
// wait for the one before.

namespace cairn::kernels::cpu {
namespace { // see scalar.h

inline constexpr int gelu_vectors = 4;

template <class V>
using GeluValues = V[gelu_vectors];

/// The tanh approximation: gelu(x) is about x logistic(2 k (x + c x^3)).
struct TanhGelu {
  static constexpr float twice_k = 2 * 0.79788456F;
  static constexpr float c = 0.044715F;

  template <class V>
  [[gnu::always_inline]] static void values(
      const GeluValues<V>& x,
      GeluValues<V>& y,
      GeluValues<V>& slope) {
    const auto each = [](const auto& step) { each_of<gelu_vectors>(step); };
    const V one(1);
    V square[gelu_vectors];
    V e[gelu_vectors];
    V s[gelu_vectors];
    each([&](int i) { square[i] = x[i] * x[i]; });
    each([&](int i) {
      e[i] = (x[i] * V(-twice_k)) * fma(square[i], V(c), one);
    });
    exp_of(e); // below 2e38, so adding 1 cannot overflow
    each([&](int i) { s[i] = inverse(one + e[i]); });
    each([&](int i) { y[i] = x[i] * s[i]; });
    // s + x s (1 - s) 2k (1 + 3 c x^2), where 1 - s is e s
    each([&](int i) {
      const V inner = fma(square[i], V(3 * c), one) * V(twice_k);
      const V rest = x[i] * (e[i] * s[i]);
      slope[i] = s[i] * fma(rest, inner, one);
    });
  }
};

/// The exact GELU: x times the normal distribution function, by Abramowitz and
/// Stegun 7.1.26, to 1.5e-7.
struct ExactGelu {
  template <class V>
  [[gnu::always_inline]] static void values(
      const GeluValues<V>& x,
      GeluValues<V>& y,
      GeluValues<V>& slope) {
    const auto each = [](const auto& step) { each_of<gelu_vectors>(step); };
    const V one(1);
    V size[gelu_vectors];
    V t[gelu_vectors];
    V p[gelu_vectors];
    V e[gelu_vectors];
    each([&](int i) { size[i] = size_of(x[i]) * V(0.70710678F); });
    each([&](int i) { size[i] = clamped(size[i], 0, 1e4F); }); // also infinity
    each([&](int i) { t[i] = inverse(fma(size[i], V(0.3275911F), one)); });
    each([&](int i) { e[i] = -(size[i] * size[i]); });
    exp_of(e);
    const auto next = [&](float coefficient) {
      each([&](int i) { p[i] = fma(p[i], t[i], V(coefficient)); });
    };
    each([&](int i) { p[i] = V(1.061405429F); });
    next(-1.453152027F);
    next(1.421413741F);
    next(-0.284496736F);
    next(0.254829592F);
    each([&](int i) {
      const V above = ((p[i] * t[i]) * V(0.5F)) * e[i];
      const V below = where_negative(x[i], above, one + -above);
      const V density = e[i] * V(0.39894228F);
      y[i] = x[i] * below;
      slope[i] = fma(x[i], density, below);
    });
  }
};

/// Computes y for some vectors, and their slopes unless `slope` is null.
template <class Kind, class V>
[[gnu::always_inline]] inline void gelu_block(
    const float* x,
    float* y,
    float* slope) {
  const auto each = [](const auto& step) { each_of<gelu_vectors>(step); };
  GeluValues<V> in;
  GeluValues<V> out;
  GeluValues<V> slopes;
  each([&](int i) { in[i] = V::load(x + i * V::width); });
  Kind::template values<V>(in, out, slopes);
  each([&](int i) { out[i].store(y + i * V::width); });
  if (slope != nullptr) {
    each([&](int i) { slopes[i].store(slope + i * V::width); });
  }
}

template <class Kind, class V>
void gelu_of_all(const float* x, float* y, float* slope, std::int64_t count) {
  constexpr std::int64_t block = gelu_vectors * V::width;
  std::int64_t i = 0;
  if (slope != nullptr) {
    for (; i + block <= count; i += block) {
      gelu_block<Kind, V>(x + i, y + i, slope + i);
    }
  } else {
    for (; i + block <= count; i += block) {
      gelu_block<Kind, V>(x + i, y + i, nullptr);
    }
  }
  if (const std::int64_t rest = count - i; rest > 0) {
    float last[block] = {};
    float values[block];
    float slopes[block];
    __builtin_memcpy(last, x + i, rest * sizeof(float));
    gelu_block<Kind, V>(last, values, slopes);
    __builtin_memcpy(y + i, values, rest * sizeof(float));
    if (slope != nullptr) {
      __builtin_memcpy(slope + i, slopes, rest * sizeof(float));
    }
  }
}

template <class V>
void gelu_of(
    Gelu kind,
    const float* x,
    float* y,
    float* slope,
    std::int64_t count) {
  kind == Gelu::exact ? gelu_of_all<ExactGelu, V>(x, y, slope, count)
                      : gelu_of_all<TanhGelu, V>(x, y, slope, count);
}

} // namespace
} // namespace cairn::kernels::cpu
