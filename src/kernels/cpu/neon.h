#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace cairn::kernels::cpu {
namespace { // see scalar.h

/// Four registers as one vector: their instructions stand side by side, and
/// the long ones (quotient, root) overlap. `converts` is whether the CPU has an
/// instruction that rounds to bf16.
template <bool converts>
struct Neon {
  static constexpr int width = 16;

  float32x4_t part[4]; // indexed by constants alone: in registers, that is

  Neon() : Neon(0.F) {}
  explicit Neon(float from)
      : Neon(each([&](int) { return vdupq_n_f32(from); })) {}

  static Neon load(const float* from) {
    return each([&](int j) { return vld1q_f32(from + 4 * j); });
  }
  static Neon load_fp16(const std::uint16_t* from) {
    const float16x8_t low = vreinterpretq_f16_u16(vld1q_u16(from));
    const float16x8_t high = vreinterpretq_f16_u16(vld1q_u16(from + 8));
    return Neon(
        vcvt_f32_f16(vget_low_f16(low)),
        vcvt_high_f32_f16(low),
        vcvt_f32_f16(vget_low_f16(high)),
        vcvt_high_f32_f16(high));
  }
  static Neon load_bf16(const std::uint16_t* from) {
    const uint16x8_t low = vld1q_u16(from);
    const uint16x8_t high = vld1q_u16(from + 8);
    return Neon(
        vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(low), 16)),
        vreinterpretq_f32_u32(vshll_high_n_u16(low, 16)),
        vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(high), 16)),
        vreinterpretq_f32_u32(vshll_high_n_u16(high, 16)));
  }
  void store(float* to) const {
    vst1q_f32(to, part[0]);
    vst1q_f32(to + 4, part[1]);
    vst1q_f32(to + 8, part[2]);
    vst1q_f32(to + 12, part[3]);
  }
  void store_fp16(std::uint16_t* to) const {
    vst1q_u16(to, as_fp16(part[0], part[1]));
    vst1q_u16(to + 8, as_fp16(part[2], part[3]));
  }
  void store_bf16(std::uint16_t* to) const {
    vst1q_u16(to, as_bf16(part[0], part[1]));
    vst1q_u16(to + 8, as_bf16(part[2], part[3]));
  }

  friend Neon operator+(Neon a, Neon b) {
    return each([&](int j) { return vaddq_f32(a.part[j], b.part[j]); });
  }
  friend Neon operator*(Neon a, Neon b) {
    return each([&](int j) { return vmulq_f32(a.part[j], b.part[j]); });
  }
  friend Neon operator/(Neon a, Neon b) {
    return each([&](int j) { return vdivq_f32(a.part[j], b.part[j]); });
  }
  friend Neon fma(Neon a, Neon b, Neon c) {
    return each(
        [&](int j) { return vfmaq_f32(c.part[j], a.part[j], b.part[j]); });
  }
  friend Neon sqrt(Neon a) {
    return each([&](int j) { return vsqrtq_f32(a.part[j]); });
  }
  friend Neon with_sign_of(Neon a, Neon b) {
    return each([&](int j) {
      const float32x4_t sign = a.part[j];
      const float32x4_t negative =
          vbslq_f32(vcltzq_f32(sign), vnegq_f32(b.part[j]), sign);
      return vbslq_f32(vcgtzq_f32(sign), b.part[j], negative);
    });
  }

  struct Sums {
    float64x2_t low[4]{};
    float64x2_t high[4]{};
    void add_square(Neon a) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const float64x2_t first = vcvt_f64_f32(vget_low_f32(a.part[j]));
        const float64x2_t second = vcvt_high_f64_f32(a.part[j]);
        low[j] = vfmaq_f64(low[j], first, first);
        high[j] = vfmaq_f64(high[j], second, second);
      }
    }
    void store(double* to) const {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        vst1q_f64(to + 4 * j, low[j]);
        vst1q_f64(to + 4 * j + 2, high[j]);
      }
    }
  };

 private:
  Neon(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d)
      : part{a, b, c, d} {}

  template <class Make>
  static Neon each(Make&& make) {
    return Neon(make(0), make(1), make(2), make(3));
  }

  static uint16x8_t as_fp16(float32x4_t low, float32x4_t high) {
    return vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(low), high));
  }

  static uint16x8_t as_bf16(float32x4_t low, float32x4_t high) {
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    if constexpr (converts) {
      return vreinterpretq_u16_bf16(
          vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(low), high));
    }
#endif
    return vuzp2q_u16(rounded(low), rounded(high));
  }

  /// The upper half of each element is its bf16.
  static uint16x8_t rounded(float32x4_t value) {
    const uint32x4_t bits = vreinterpretq_u32_f32(value);
    const uint32x4_t odd = vshlq_n_u32(bits, 15); // its top bit
    const uint32x4_t sum =
        vaddq_u32(vsraq_n_u32(bits, odd, 31), vdupq_n_u32(0x7fff));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vreinterpretq_u16_u32(
        vbslq_u32(vceqq_f32(value, value), sum, quiet));
  }
};

} // namespace
} // namespace cairn::kernels::cpu
