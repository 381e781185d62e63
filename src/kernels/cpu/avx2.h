#pragma once

#include <immintrin.h>

#include <cstdint>

namespace cairn::kernels::cpu {
namespace { // see scalar.h

struct Avx2 {
  static constexpr int width = 8;
  static constexpr int blocks = 1;

  __m256 value = _mm256_setzero_ps();

  Avx2() = default;
  explicit Avx2(float from) : value(_mm256_set1_ps(from)) {}
  explicit Avx2(__m256 from) : value(from) {}

  static Avx2 load(const float* from) { return Avx2(_mm256_loadu_ps(from)); }
  static Avx2 load_fp16(const std::uint16_t* from) {
    return Avx2(_mm256_cvtph_ps(bits_at(from)));
  }
  static Avx2 load_bf16(const std::uint16_t* from) {
    const __m256i wide = _mm256_cvtepu16_epi32(bits_at(from));
    return Avx2(_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
  }
  static Avx2 load_int8(const std::int8_t* from) {
    return Avx2(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)))));
  }
  void store(float* to) const { _mm256_storeu_ps(to, value); }
  void store_fp16(std::uint16_t* to) const {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    put_bits(to, _mm256_cvtps_ph(value, nearest));
  }
  void store_bf16(std::uint16_t* to) const {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd =
        _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_blendv_epi8(
            _mm256_add_epi32(bits, half),
            quiet,
            _mm256_castps_si256(nan)),
        16);
    put_bits(
        to,
        _mm_packus_epi32(
            _mm256_castsi256_si128(rounded),
            _mm256_extracti128_si256(rounded, 1)));
  }

  friend Avx2 operator-(Avx2 a) {
    return Avx2(_mm256_xor_ps(a.value, _mm256_set1_ps(-0.0F)));
  }
  friend Avx2 operator+(Avx2 a, Avx2 b) {
    return Avx2(_mm256_add_ps(a.value, b.value));
  }
  friend Avx2 operator*(Avx2 a, Avx2 b) {
    return Avx2(_mm256_mul_ps(a.value, b.value));
  }
  friend Avx2 operator/(Avx2 a, Avx2 b) {
    return Avx2(_mm256_div_ps(a.value, b.value));
  }
  friend Avx2 fma(Avx2 a, Avx2 b, Avx2 c) {
    return Avx2(_mm256_fmadd_ps(a.value, b.value, c.value));
  }
  friend Avx2 sqrt(Avx2 a) { return Avx2(_mm256_sqrt_ps(a.value)); }
  friend Avx2 with_sign_of(Avx2 a, Avx2 b) {
    const __m256 zero = _mm256_setzero_ps();
    const __m256 minus_b = _mm256_xor_ps(b.value, _mm256_set1_ps(-0.0F));
    const __m256 negative = _mm256_blendv_ps(
        a.value,
        minus_b,
        _mm256_cmp_ps(a.value, zero, _CMP_LT_OQ));
    return Avx2(_mm256_blendv_ps(
        negative,
        b.value,
        _mm256_cmp_ps(a.value, zero, _CMP_GT_OQ)));
  }

  /// x from `low` to `high`; nan stays nan.
  friend Avx2 clamped(Avx2 x, float low, float high) {
    const __m256 above = _mm256_max_ps(_mm256_set1_ps(low), x.value);
    return Avx2(_mm256_min_ps(_mm256_set1_ps(high), above));
  }
  friend Avx2 higher(Avx2 a, Avx2 b) {
    return Avx2(_mm256_max_ps(a.value, b.value));
  }
  friend Avx2 size_of(Avx2 a) {
    return Avx2(_mm256_andnot_ps(_mm256_set1_ps(-0.0F), a.value));
  }
  /// The nearest whole number, to even if two are.
  friend Avx2 nearest(Avx2 a) {
    constexpr int how = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return Avx2(_mm256_round_ps(a.value, how));
  }
  /// a * 2^whole, for whole numbers from -126 to 127.
  friend Avx2 scaled(Avx2 a, Avx2 whole) {
    const __m256i exponent = _mm256_slli_epi32(
        _mm256_add_epi32(
            _mm256_cvtps_epi32(whole.value),
            _mm256_set1_epi32(127)),
        23);
    return Avx2(_mm256_mul_ps(a.value, _mm256_castsi256_ps(exponent)));
  }
  /// 1 / a, accurate to some units in the last place; 0 for nearly infinite a.
  friend Avx2 inverse(Avx2 a) {
    const __m256 r = _mm256_rcp_ps(a.value);
    const __m256 rest = _mm256_fnmadd_ps(a.value, r, _mm256_set1_ps(2));
    return Avx2(_mm256_mul_ps(r, rest));
  }
  /// Each element of `a` where that of x is negative, else that of `b`.
  friend Avx2 where_negative(Avx2 x, Avx2 a, Avx2 b) {
    const __m256 negative =
        _mm256_cmp_ps(x.value, _mm256_setzero_ps(), _CMP_LT_OQ);
    return Avx2(_mm256_blendv_ps(b.value, a.value, negative));
  }
  /// The first `count` elements, and zeros; `count` may be out of range.
  Avx2 first(std::int64_t count) const {
    const int wanted = count <= 0 ? 0
        : count >= width          ? width
                                  : static_cast<int>(count);
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i is_wanted =
        _mm256_cmpgt_epi32(_mm256_set1_epi32(wanted), lane);
    return Avx2(_mm256_and_ps(value, _mm256_castsi256_ps(is_wanted)));
  }

  float sum() const {
    const __m128 four = _mm_add_ps(
        _mm256_castps256_ps128(value),
        _mm256_extractf128_ps(value, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }

  struct Sums {
    __m256d low = _mm256_setzero_pd();
    __m256d high = _mm256_setzero_pd();
    void add_square(Avx2 a) {
      const __m256d first = _mm256_cvtps_pd(_mm256_castps256_ps128(a.value));
      const __m256d second = _mm256_cvtps_pd(_mm256_extractf128_ps(a.value, 1));
      low = _mm256_fmadd_pd(first, first, low);
      high = _mm256_fmadd_pd(second, second, high);
    }
    void store(double* to) const {
      _mm256_storeu_pd(to, low);
      _mm256_storeu_pd(to + 4, high);
    }
  };

 private:
  static __m128i bits_at(const std::uint16_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
  static void put_bits(std::uint16_t* to, __m128i bits) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bits);
  }
};

} // namespace
} // namespace cairn::kernels::cpu
