#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// Good to about an ulp, and the same to the last bit on every machine, given a
// file compiled with -ffp-contract=off: no C library's function, none of which
// promises the last bit, and every sum in one order. Include it nowhere else.
namespace cairn::exact_math {

/// Natural logarithm of a normal number above zero.
inline double log(double x) {
  // x = 2^exponent * m with m in [sqrt(1/2), sqrt(2)), from the bits.
  constexpr std::uint64_t sqrt_half = 0x3fe6a09e667f3bcd;
  constexpr std::uint64_t mantissa = 0x000fffffffffffff;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t above = bits - sqrt_half;
  const auto exponent = static_cast<std::int64_t>(above) >> 52;
  const double m =
      std::bit_cast<double>((above & mantissa) + sqrt_half);
  // log m = 2 artanh s = 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.172.
  const double s = (m - 1.0) / (m + 1.0);
  const double t = s * s;
  double tail = 1.0 / 21.0;
  for (int k = 19; k >= 3; k -= 2) {
    tail = tail * t + 1.0 / k;
  }
  // log 2 in two parts: the first has so few bits that its product is exact.
  constexpr double log2_high = 0x1.62e42fefa38p-1;
  constexpr double log2_low = 0x1.ef35793c7673p-45;
  const auto e = static_cast<double>(exponent);
  const double small = 2.0 * s * t * tail + e * log2_low;
  return e * log2_high + (2.0 * s + small);
}

struct SineCosine {
  double sine;
  double cosine;
};

/// Of 2 pi times `turn`, which lies in [0, 1).
inline SineCosine sine_cosine_of_turn(double turn) {
  // Quarter turns are taken off before pi comes in, so nothing is lost.
  const double quarters = 4.0 * turn;
  const auto nearest = static_cast<int>(quarters + 0.5);
  const double x = (quarters - nearest) * 1.57079632679489661923;
  const double t = x * x; // |x| <= pi/4
  double sine = 0.0;
  for (int k = 16; k >= 2; k -= 2) {
    sine = (sine + 1.0) * -t / (k * (k + 1));
  }
  sine = x + x * sine;
  double cosine = 0.0;
  for (int k = 17; k >= 1; k -= 2) {
    cosine = (cosine + 1.0) * -t / (k * (k + 1));
  }
  cosine = 1.0 + cosine;
  switch (nearest & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

} // namespace cairn::exact_math
