#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

namespace cairn::kernels::cpu {
namespace { // see scalar.h

/// `converts` is true when the CPU has an instruction that rounds to bf16.
template <bool converts>
struct Neon {
  static constexpr int width = 4;
  /// Divisions and square roots are slow; several vectors at a time overlap
  /// them.
  static constexpr int blocks = 6;

  float32x4_t value;

  Neon() = default;
  explicit Neon(float from) : value(vdupq_n_f32(from)) {}
  explicit Neon(float32x4_t from) : value(from) {}

  static Neon load(const float* from) { return Neon(vld1q_f32(from)); }
  static Neon load_fp16(const std::uint16_t* from) {
    return Neon(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))));
  }
  static Neon load_bf16(const std::uint16_t* from) {
    return Neon(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16)));
  }
  static Neon load_int8(const std::int8_t* from) {
    std::int32_t bits = 0;
    std::memcpy(&bits, from, sizeof bits);
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(bits));
    return Neon(vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes)))));
  }
  void store(float* to) const { vst1q_f32(to, value); }
  void store_fp16(std::uint16_t* to) const {
    vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(value)));
  }
  void store_bf16(std::uint16_t* to) const {
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    if constexpr (converts) {
      vst1_u16(to, vreinterpret_u16_bf16(vcvt_bf16_f32(value)));
      return;
    }
#endif
    const uint16x8_t halves = rounded(value);
    vst1_u16(to, vget_low_u16(vuzp2q_u16(halves, halves)));
  }

  friend Neon operator-(Neon a) {
    return Neon(vnegq_f32(a.value));
  }
  friend Neon operator+(Neon a, Neon b) {
    return Neon(vaddq_f32(a.value, b.value));
  }
  friend Neon operator*(Neon a, Neon b) {
    return Neon(vmulq_f32(a.value, b.value));
  }
  friend Neon operator/(Neon a, Neon b) {
    return Neon(vdivq_f32(a.value, b.value));
  }
  friend Neon fma(Neon a, Neon b, Neon c) {
    return Neon(vfmaq_f32(c.value, a.value, b.value));
  }
  friend Neon sqrt(Neon a) {
    return Neon(vsqrtq_f32(a.value));
  }
  friend Neon with_sign_of(Neon a, Neon b) {
    const float32x4_t negative =
        vbslq_f32(vcltzq_f32(a.value), vnegq_f32(b.value), a.value);
    return Neon(vbslq_f32(vcgtzq_f32(a.value), b.value, negative));
  }

  /// x from `low` to `high`; nan stays nan.
  friend Neon clamped(Neon x, float low, float high) {
    return Neon(
        vminq_f32(vmaxq_f32(x.value, vdupq_n_f32(low)), vdupq_n_f32(high)));
  }
  friend Neon higher(Neon a, Neon b) {
    return Neon(vmaxq_f32(a.value, b.value));
  }
  friend Neon size_of(Neon a) {
    return Neon(vabsq_f32(a.value));
  }
  /// The nearest whole number, to even if two are.
  friend Neon nearest(Neon a) {
    return Neon(vrndnq_f32(a.value));
  }
  /// a * 2^whole, for whole numbers from -126 to 127.
  friend Neon scaled(Neon a, Neon whole) {
    const int32x4_t exponent =
        vaddq_s32(vcvtq_s32_f32(whole.value), vdupq_n_s32(127));
    return Neon(
        vmulq_f32(a.value, vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23))));
  }
  /// 1 / a, accurate to some units in the last place; 0 for nearly infinite a.
  friend Neon inverse(Neon a) {
    float32x4_t r = vrecpeq_f32(a.value);
    r = vmulq_f32(r, vrecpsq_f32(a.value, r));
    return Neon(vmulq_f32(r, vrecpsq_f32(a.value, r)));
  }
  /// Each element of `a` where that of x is negative, else that of `b`.
  friend Neon where_negative(Neon x, Neon a, Neon b) {
    return Neon(vbslq_f32(vcltzq_f32(x.value), a.value, b.value));
  }
  /// The first `count` elements, and zeros; `count` may be out of range.
  Neon first(std::int64_t count) const {
    constexpr std::int32_t lane[] = {0, 1, 2, 3};
    const std::int32_t wanted = count <= 0 ? 0
        : count >= width                   ? width
                                           : static_cast<std::int32_t>(count);
    const uint32x4_t is_wanted =
        vcltq_s32(vld1q_s32(lane), vdupq_n_s32(wanted));
    return Neon(vreinterpretq_f32_u32(
        vandq_u32(vreinterpretq_u32_f32(value), is_wanted)));
  }

  float sum() const {
    const float32x2_t two = vadd_f32(vget_low_f32(value), vget_high_f32(value));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }

  struct Sums {
    float64x2_t low{};
    float64x2_t high{};
    void add_square(Neon a) {
      const float64x2_t first = vcvt_f64_f32(vget_low_f32(a.value));
      const float64x2_t second = vcvt_high_f64_f32(a.value);
      low = vfmaq_f64(low, first, first);
      high = vfmaq_f64(high, second, second);
    }
    void store(double* to) const {
      vst1q_f64(to, low);
      vst1q_f64(to + 2, high);
    }
  };

 private:
  /// Rounds to bf16, in the upper half of each element.
  static uint16x8_t rounded(float32x4_t value) {
    const uint32x4_t bits = vreinterpretq_u32_f32(value);
    const uint32x4_t odd = vshlq_n_u32(bits, 15); // lowest bf16 bit, at the top
    const uint32x4_t sum =
        vaddq_u32(vsraq_n_u32(bits, odd, 31), vdupq_n_u32(0x7fff));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vreinterpretq_u16_u32(
        vbslq_u32(vceqq_f32(value, value), sum, quiet));
  }
};

} // namespace
} // namespace cairn::kernels::cpu
