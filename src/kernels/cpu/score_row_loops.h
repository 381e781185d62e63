#pragma once

#include "kernels/cpu/exp_of.h"

#include <cstdint>

namespace cairn::kernels::cpu {
namespace { // see scalar.h

/// Vectors that are computed side by side, so that none waits for itself.
inline constexpr int score_vectors = 4;

template <class V>
float highest_of_row(const float* x, std::int64_t count) {
  constexpr int n = score_vectors;
  V high[n];
  each_of<n>([&](int v) { high[v] = V(-__builtin_inff()); });
  std::int64_t i = 0;
  for (; i + n * V::width <= count; i += n * V::width) {
    each_of<n>([&](int v) {
      high[v] = higher(high[v], V::load(x + i + v * V::width));
    });
  }
  for (; i + V::width <= count; i += V::width) {
    high[0] = higher(high[0], V::load(x + i));
  }
  float lanes[V::width];
  higher(higher(high[0], high[1]), higher(high[2], high[3])).store(lanes);
  float highest = lanes[0];
  for (const float lane : lanes) {
    highest = lane > highest ? lane : highest;
  }
  for (; i < count; ++i) {
    highest = x[i] > highest ? x[i] : highest;
  }
  return highest;
}

template <class V>
float row_exponentials(
    float* x,
    std::int64_t seen,
    std::int64_t count,
    float scale,
    float shift) {
  constexpr int n = score_vectors;
  constexpr std::int64_t at_once = n * V::width;
  V sums[n];
  each_of<n>([&](int v) { sums[v] = V(0.0F); });
  // Replaces the values at `at`; those at or after `left` become zero.
  const auto replace = [&](float* at, std::int64_t left) {
    V e[n];
    each_of<n>([&](int v) {
      e[v] = fma(V::load(at + v * V::width), V(scale), V(-shift));
    });
    exp_of(e);
    each_of<n>([&](int v) {
      if (left < at_once) {
        e[v] = e[v].first(left - v * V::width);
      }
      e[v].store(at + v * V::width);
      sums[v] = sums[v] + e[v];
    });
  };
  std::int64_t i = 0;
  for (; i + at_once <= seen; i += at_once) {
    replace(x + i, at_once);
  }
  if (i < seen && i + at_once <= count) {
    replace(x + i, seen - i);
    i += at_once;
  } else if (i < seen) {
    float last[at_once] = {};
    __builtin_memcpy(last, x + i, (seen - i) * sizeof(float));
    replace(last, seen - i);
    __builtin_memcpy(x + i, last, (seen - i) * sizeof(float));
    i = seen;
  }
  if (i < count) {
    __builtin_memset(x + i, 0, (count - i) * sizeof(float));
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum();
}

} // namespace
} // namespace cairn::kernels::cpu
