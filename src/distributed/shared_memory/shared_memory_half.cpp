#include "distributed/shared_memory/shared_memory_half.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cairn::distributed {
namespace {

static_assert(sizeof(c10::Half) == 2);

// These convert as many values as the instructions take in whole steps and
// return that number; the rest is for the caller.

#if defined(__aarch64__)

std::size_t widen_steps(const c10::Half* from, float* to, std::size_t count) {
  const auto* const halves = reinterpret_cast<const float16_t*>(from);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const float16x8_t x = vld1q_f16(halves + i);
    vst1q_f32(to + i, vcvt_f32_f16(vget_low_f16(x)));
    vst1q_f32(to + i + 4, vcvt_high_f32_f16(x));
  }
  return i;
}

std::size_t narrow_steps(const float* from, c10::Half* to, std::size_t count) {
  auto* const halves = reinterpret_cast<float16_t*>(to);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const float16x4_t low = vcvt_f16_f32(vld1q_f32(from + i));
    vst1q_f16(halves + i, vcvt_high_f16_f32(low, vld1q_f32(from + i + 4)));
  }
  return i;
}

#elif defined(__x86_64__)

__attribute__((target("avx,f16c"))) std::size_t widen_f16c(
    const c10::Half* from,
    float* to,
    std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const auto* const halves = reinterpret_cast<const __m128i*>(from + i);
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(halves)));
  }
  return i;
}

__attribute__((target("avx,f16c"))) std::size_t narrow_f16c(
    const float* from,
    c10::Half* to,
    std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to + i),
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}

bool has_f16c() {
  static const bool has =
      __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  return has;
}

std::size_t widen_steps(const c10::Half* from, float* to, std::size_t count) {
  return has_f16c() ? widen_f16c(from, to, count) : 0;
}

std::size_t narrow_steps(const float* from, c10::Half* to, std::size_t count) {
  return has_f16c() ? narrow_f16c(from, to, count) : 0;
}

#else

std::size_t widen_steps(const c10::Half*, float*, std::size_t) {
  return 0;
}

std::size_t narrow_steps(const float*, c10::Half*, std::size_t) {
  return 0;
}

#endif

} // namespace

void widen_halves(const c10::Half* from, float* to, std::size_t count) {
  for (std::size_t i = widen_steps(from, to, count); i < count; ++i) {
    to[i] = static_cast<float>(from[i]);
  }
}

void narrow_to_halves(const float* from, c10::Half* to, std::size_t count) {
  for (std::size_t i = narrow_steps(from, to, count); i < count; ++i) {
    to[i] = from[i];
  }
}

} // namespace cairn::distributed
