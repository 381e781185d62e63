#pragma once

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>

// Copies parts of matrices into the order in which the innermost loop of
// products reads them.

namespace cairn::kernels::cpu {
namespace { // see scalar.h

inline constexpr std::int64_t floats_in_line = 16; ///< floats per cache line
inline constexpr std::int64_t soon = 8;            ///< rows ahead to prefetch

/// Stores four vectors of four transposed, `gap` apart.
template <int gap>
[[gnu::always_inline]] inline void store_transposed(
    const float* from,
    std::int64_t step,
    float* to) {
#if defined(__aarch64__)
  const float32x4_t r0 = vld1q_f32(from);
  const float32x4_t r1 = vld1q_f32(from + step);
  const float32x4_t r2 = vld1q_f32(from + 2 * step);
  const float32x4_t r3 = vld1q_f32(from + 3 * step);
  const auto even = [](float32x4_t a, float32x4_t b) {
    return vreinterpretq_f64_f32(vtrn1q_f32(a, b));
  };
  const auto odd = [](float32x4_t a, float32x4_t b) {
    return vreinterpretq_f64_f32(vtrn2q_f32(a, b));
  };
  const auto store = [&](int row, float64x2_t x) {
    vst1q_f32(to + row * gap, vreinterpretq_f32_f64(x));
  };
  store(0, vtrn1q_f64(even(r0, r1), even(r2, r3)));
  store(1, vtrn1q_f64(odd(r0, r1), odd(r2, r3)));
  store(2, vtrn2q_f64(even(r0, r1), even(r2, r3)));
  store(3, vtrn2q_f64(odd(r0, r1), odd(r2, r3)));
#else
  __m128 r0 = _mm_loadu_ps(from);
  __m128 r1 = _mm_loadu_ps(from + step);
  __m128 r2 = _mm_loadu_ps(from + 2 * step);
  __m128 r3 = _mm_loadu_ps(from + 3 * step);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(to, r0);
  _mm_storeu_ps(to + gap, r1);
  _mm_storeu_ps(to + 2 * gap, r2);
  _mm_storeu_ps(to + 3 * gap, r3);
#endif
}

/// Some lines of a matrix: rows of the left or columns of the right one.
struct Lines {
  const float* first = nullptr;
  std::int64_t line_step = 0;
  std::int64_t depth_step = 0;
  std::int64_t count = 0;
  std::int64_t depth = 0;

  const float* at(std::int64_t line, std::int64_t d) const {
    return first + line * line_step + d * depth_step;
  }
};

/// Packs four lines of a panel of `width`; missing lines become zero.
template <int width>
void pack_four(const Lines& lines, std::int64_t line, float* to) {
  const std::int64_t there = std::clamp<std::int64_t>(lines.count - line, 0, 4);
  std::int64_t d = 0;
  if (there == 4 && lines.depth_step == 1) {
    const bool more = line + width + 4 <= lines.count;
    for (; d + 4 <= lines.depth; d += 4) {
      if (more && d % floats_in_line == 0) {
        for (int i = 0; i < 4; ++i) {
          __builtin_prefetch(lines.at(line + width + i, d));
        }
      }
      store_transposed<width>(
          lines.at(line, d),
          lines.line_step,
          to + d * width);
    }
  } else if (there == 4 && lines.line_step == 1) {
    for (; d < lines.depth; ++d) {
      __builtin_memcpy(to + d * width, lines.at(line, d), 4 * sizeof(float));
    }
  } else if (there == 0) {
    for (; d < lines.depth; ++d) {
      __builtin_memset(to + d * width, 0, 4 * sizeof(float));
    }
  }
  for (; d < lines.depth; ++d) {
    for (std::int64_t i = 0; i < 4; ++i) {
      to[d * width + i] = i < there ? *lines.at(line + i, d) : 0.0F;
    }
  }
}

/// Packs whole panels of lines that are adjacent in memory, several panels at a
/// time, so that the matrix is read in its own order.
template <int width>
void pack_side_by_side(const Lines& lines, std::int64_t panels, float* to) {
  constexpr std::int64_t at_a_time = 8;
  for (std::int64_t first = 0; first < panels; first += at_a_time) {
    const std::int64_t some = std::min(at_a_time, panels - first);
    for (std::int64_t d = 0; d < lines.depth; ++d) {
      const float* from = lines.at(first * width, d);
      float* panel = to + (first * lines.depth + d) * width;
      if (d + soon < lines.depth) {
        for (std::int64_t i = 0; i < some * width; i += floats_in_line) {
          __builtin_prefetch(from + soon * lines.depth_step + i);
        }
      }
      for (std::int64_t i = 0; i < some; ++i) {
        __builtin_memcpy(panel, from, width * sizeof(float));
        from += width;
        panel += width * lines.depth;
      }
    }
  }
}

/// Copies lines into panels of `width`, in which the values of one depth are
/// adjacent; missing lines become zero.
template <int width>
void pack(const Lines& lines, float* to) {
  std::int64_t line = 0;
  if (lines.line_step == 1) {
    const std::int64_t whole = lines.count / width;
    pack_side_by_side<width>(lines, whole, to);
    line = whole * width;
  }
  for (; line < lines.count; line += width) {
    for (int part = 0; part < width; part += 4) {
      pack_four<width>(lines, line + part, to + line * lines.depth + part);
    }
  }
}

} // namespace
} // namespace cairn::kernels::cpu
