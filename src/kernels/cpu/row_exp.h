#pragma once

#include <bit>
#include <cstdint>

namespace cairn::kernels::cpu {
namespace { // see scalar.h

/// e^x within 2 units in the last place, without branches, so that compilers
/// make vectors of it. Below -87 it is e^-87, above 88 it is e^88.
inline float row_exp(float x) {
  // Adding this number leaves the nearest whole number in the lowest bits.
  constexpr float rounder = 12582912.F;
  x = x < -87.F ? -87.F : x;
  x = x > 88.F ? 88.F : x;
  const float shifted = __builtin_fmaf(x, 1.44269504F, rounder);
  const float whole = shifted - rounder;
  // ln 2 in two parts, so that the difference is exact.
  float rest = __builtin_fmaf(whole, -0.693145752F, x);
  rest = __builtin_fmaf(whole, -1.42860677e-6F, rest);
  // Taylor's polynomial; |rest| is at most ln(2) / 2.
  float sum = 1.F / 5040;
  sum = __builtin_fmaf(sum, rest, 1.F / 720);
  sum = __builtin_fmaf(sum, rest, 1.F / 120);
  sum = __builtin_fmaf(sum, rest, 1.F / 24);
  sum = __builtin_fmaf(sum, rest, 1.F / 6);
  sum = __builtin_fmaf(sum, rest, 0.5F);
  sum = __builtin_fmaf(sum, rest, 1.F);
  sum = __builtin_fmaf(sum, rest, 1.F);
  // The whole number is added to the exponent.
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) << 23U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(sum) + exponent);
}

} // namespace
} // namespace cairn::kernels::cpu
