#pragma once

#include <immintrin.h>

#include <cstdint>
#include <limits>

namespace cairn::kernels::cpu {
namespace { // see scalar.h

struct Avx512 {
  static constexpr int width = 16;
  static constexpr int blocks = 1;

  __m512 value = _mm512_setzero_ps();

  Avx512() = default;
  explicit Avx512(float from) : value(_mm512_set1_ps(from)) {}
  explicit Avx512(__m512 from) : value(from) {}

  static Avx512 load(const float* from) {
    return Avx512(_mm512_loadu_ps(from));
  }
  static Avx512 load_fp16(const std::uint16_t* from) {
    return Avx512(_mm512_cvtph_ps(bits_at(from)));
  }
  static Avx512 load_bf16(const std::uint16_t* from) {
    const __m512i wide = _mm512_cvtepu16_epi32(bits_at(from));
    return Avx512(_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
  }
  static Avx512 load_int8(const std::int8_t* from) {
    return Avx512(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))));
  }
  void store(float* to) const { _mm512_storeu_ps(to, value); }
  void store_fp16(std::uint16_t* to) const {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    put_bits(to, _mm512_cvtps_ph(value, nearest));
  }
  void store_bf16(std::uint16_t* to) const {
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i odd =
        _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512i rounded = _mm512_mask_or_epi32(
        _mm512_add_epi32(bits, half),
        nan,
        bits,
        _mm512_set1_epi32(0x400000));
    put_bits(to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
  }

  friend Avx512 operator-(Avx512 a) {
    return Avx512(_mm512_castsi512_ps(_mm512_xor_si512(
        _mm512_castps_si512(a.value),
        _mm512_set1_epi32(std::numeric_limits<int>::min()))));
  }
  friend Avx512 operator+(Avx512 a, Avx512 b) {
    return Avx512(_mm512_add_ps(a.value, b.value));
  }
  friend Avx512 operator*(Avx512 a, Avx512 b) {
    return Avx512(_mm512_mul_ps(a.value, b.value));
  }
  friend Avx512 operator/(Avx512 a, Avx512 b) {
    return Avx512(_mm512_div_ps(a.value, b.value));
  }
  friend Avx512 fma(Avx512 a, Avx512 b, Avx512 c) {
    return Avx512(_mm512_fmadd_ps(a.value, b.value, c.value));
  }
  friend Avx512 sqrt(Avx512 a) { return Avx512(_mm512_sqrt_ps(a.value)); }
  friend Avx512 with_sign_of(Avx512 a, Avx512 b) {
    const __m512 zero = _mm512_setzero_ps();
    const __mmask16 above = _mm512_cmp_ps_mask(a.value, zero, _CMP_GT_OQ);
    const __mmask16 below = _mm512_cmp_ps_mask(a.value, zero, _CMP_LT_OQ);
    const __m512 result = _mm512_mask_mov_ps(a.value, above, b.value);
    return Avx512(_mm512_mask_sub_ps(result, below, zero, b.value));
  }

  /// x from `low` to `high`; nan stays nan.
  friend Avx512 clamped(Avx512 x, float low, float high) {
    const __m512 above = _mm512_max_ps(_mm512_set1_ps(low), x.value);
    return Avx512(_mm512_min_ps(_mm512_set1_ps(high), above));
  }
  friend Avx512 higher(Avx512 a, Avx512 b) {
    return Avx512(_mm512_max_ps(a.value, b.value));
  }
  friend Avx512 size_of(Avx512 a) { return Avx512(_mm512_abs_ps(a.value)); }
  /// The nearest whole number, to even if two are.
  friend Avx512 nearest(Avx512 a) {
    constexpr int how = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return Avx512(_mm512_roundscale_ps(a.value, how));
  }
  /// a * 2^whole, for whole numbers from -126 to 127.
  friend Avx512 scaled(Avx512 a, Avx512 whole) {
    return Avx512(_mm512_scalef_ps(a.value, whole.value));
  }
  /// 1 / a, accurate to some units in the last place; 0 for nearly infinite a.
  friend Avx512 inverse(Avx512 a) {
    const __m512 r = _mm512_rcp14_ps(a.value);
    const __m512 rest = _mm512_fnmadd_ps(a.value, r, _mm512_set1_ps(2));
    return Avx512(_mm512_mul_ps(r, rest));
  }
  /// Each element of `a` where that of x is negative, else that of `b`.
  friend Avx512 where_negative(Avx512 x, Avx512 a, Avx512 b) {
    const __mmask16 negative =
        _mm512_cmp_ps_mask(x.value, _mm512_setzero_ps(), _CMP_LT_OQ);
    return Avx512(_mm512_mask_mov_ps(b.value, negative, a.value));
  }
  /// The first `count` elements, and zeros; `count` may be out of range.
  Avx512 first(std::int64_t count) const {
    const std::int64_t wanted = count <= 0 ? 0 : count >= width ? width : count;
    return Avx512(
        _mm512_maskz_mov_ps(static_cast<__mmask16>((1U << wanted) - 1), value));
  }

  float sum() const {
    const __m256 high =
        _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(value), 1));
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(value), high);
    const __m128 four = _mm_add_ps(
        _mm256_castps256_ps128(eight),
        _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }

  struct Sums {
    __m512d low = _mm512_setzero_pd();
    __m512d high = _mm512_setzero_pd();
    void add_square(Avx512 a) {
      const __m512d first = _mm512_cvtps_pd(_mm512_castps512_ps256(a.value));
      const __m512d second = _mm512_cvtps_pd(_mm256_castpd_ps(
          _mm512_extractf64x4_pd(_mm512_castps_pd(a.value), 1)));
      low = _mm512_fmadd_pd(first, first, low);
      high = _mm512_fmadd_pd(second, second, high);
    }
    void store(double* to) const {
      _mm512_storeu_pd(to, low);
      _mm512_storeu_pd(to + 8, high);
    }
  };

 private:
  static __m256i bits_at(const std::uint16_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static void put_bits(std::uint16_t* to, __m256i bits) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bits);
  }
};

} // namespace
} // namespace cairn::kernels::cpu
