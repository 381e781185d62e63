#pragma once

#include <bit>
#include <cstdint>

// Everything in this and the other vector headers is local to the file that
// includes it. Each of these files is compiled for another instruction set, and
// the linker must not merge their code.
namespace cairn::kernels::cpu {
namespace {

inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) { // made quiet; its other bits stay
    return static_cast<std::uint16_t>(bits >> 16U | 0x40U);
  }
  const std::uint32_t half = 0x7fffU + (bits >> 16U & 1U); // ties to even
  return static_cast<std::uint16_t>((bits + half) >> 16U);
}

inline float from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t rest = bits & 0x7fffU;
  if (rest < 0x400U) { // zero and denormals: a multiple of 2^-24
    const float value = static_cast<float>(rest) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  std::uint32_t wide = (rest << 13U) + (112U << 23U);
  if (rest >= 0x7c00U) {
    wide += 112U << 23U; // inf and nan
    wide |= rest > 0x7c00U ? 0x400000U : 0U;
  }
  return std::bit_cast<float>(wide | sign);
}

inline std::uint16_t to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t rest = bits & 0x7fffffffU;
  std::uint32_t result = 0;
  if (rest > 0x7f800000U) {
    result = 0x7e00U | (rest >> 13U & 0x3ffU);
  } else if (rest >= 0x477ff000U) { // rounds to 2^16 or more
    result = 0x7c00U;
  } else if (rest < 0x38800000U) { // below 2^-14: fp16's denormals
    // The addition rounds, and leaves the denormal in the lowest bits of the
    // sum.
    const float sum = std::bit_cast<float>(rest) + 0.5F;
    result = std::bit_cast<std::uint32_t>(sum) - 0x3f000000U;
  } else {
    const std::uint32_t half = 0xfffU + (rest >> 13U & 1U); // ties to even
    result = (rest + half - (112U << 23U)) >> 13U;
  }
  return static_cast<std::uint16_t>(result | sign);
}

/// A float with the interface of a vector: used by the portable path, and for
/// the elements of a stretch that fill no whole vector.
struct Scalar {
  static constexpr int width = 1;
  static constexpr int blocks = 1;

  float value = 0;

  Scalar() = default;
  explicit Scalar(float from) : value(from) {}

  static Scalar load(const float* from) { return Scalar(*from); }
  static Scalar load_fp16(const std::uint16_t* from) {
    return Scalar(from_fp16(*from));
  }
  static Scalar load_bf16(const std::uint16_t* from) {
    return Scalar(from_bf16(*from));
  }
  static Scalar load_int8(const std::int8_t* from) {
    return Scalar(static_cast<float>(*from));
  }
  void store(float* to) const { *to = value; }
  void store_fp16(std::uint16_t* to) const { *to = to_fp16(value); }
  void store_bf16(std::uint16_t* to) const { *to = to_bf16(value); }

  friend Scalar operator-(Scalar a) { return Scalar(-a.value); }
  friend Scalar operator+(Scalar a, Scalar b) {
    return Scalar(a.value + b.value);
  }
  friend Scalar operator*(Scalar a, Scalar b) {
    return Scalar(a.value * b.value);
  }
  friend Scalar operator/(Scalar a, Scalar b) {
    return Scalar(a.value / b.value);
  }
  /// a * b + c, rounded once.
  friend Scalar fma(Scalar a, Scalar b, Scalar c) {
    return Scalar(__builtin_fmaf(a.value, b.value, c.value));
  }
  friend Scalar sqrt(Scalar a) { return Scalar(__builtin_sqrtf(a.value)); }
  /// b if a is positive, -b if a is negative, a itself if it is zero or nan.
  friend Scalar with_sign_of(Scalar a, Scalar b) {
    return a.value > 0 ? b : a.value < 0 ? Scalar(-b.value) : a;
  }

  /// The sum of all elements of a vector. The upper half of them is added to
  /// the lower half, again and again until one is left.
  float sum() const { return value; }

  /// An fp64 sum for each float of a vector.
  struct Sums {
    double sums = 0;
    void add_square(Scalar a) {
      sums += static_cast<double>(a.value) * static_cast<double>(a.value);
    }
    void store(double* to) const { *to = sums; }
  };
};

} // namespace
} // namespace cairn::kernels::cpu
