#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

// Functions that are good to about an ulp and give the same bits on every
// machine. They call no function of a C library, none of which promises the
// last bit, and every sum has one order. Include this header only in files
// compiled with -ffp-contract=off.
namespace cairn::inline base::exact_math {

/// coefficients[0] + coefficients[1] x + coefficients[2] x^2 + ...
template <std::size_t n>
inline double polynomial(const std::array<double, n>& coefficients, double x) {
  double sum = coefficients[n - 1];
  for (std::size_t k = n - 1; k-- > 0;) {
    sum = sum * x + coefficients[k];
  }
  return sum;
}

/// Natural logarithm of a normal number above zero.
inline double log(double x) {
  // x = 2^exponent * m with m in [sqrt(1/2), sqrt(2)), from the bits.
  constexpr std::uint64_t sqrt_half = 0x3fe6a09e667f3bcd;
  constexpr std::uint64_t mantissa = 0x000fffffffffffff;
  const std::uint64_t above = std::bit_cast<std::uint64_t>(x) - sqrt_half;
  const double exponent =
      static_cast<double>(static_cast<std::int64_t>(above) >> 52);
  const double m = std::bit_cast<double>((above & mantissa) + sqrt_half);
  // log m = 2 artanh s = 2 s (1 + t/3 + t^2/5 + ...), with |s| < 0.172.
  constexpr std::array<double, 10> artanh = {
      1.0 / 3,
      1.0 / 5,
      1.0 / 7,
      1.0 / 9,
      1.0 / 11,
      1.0 / 13,
      1.0 / 15,
      1.0 / 17,
      1.0 / 19,
      1.0 / 21};
  const double s = (m - 1.0) / (m + 1.0);
  const double t = s * s;
  // log 2 in two parts: the first has so few bits that its product with the
  // exponent is exact.
  constexpr double log2_high = 0x1.62e42fefa38p-1;
  constexpr double log2_low = 0x1.ef35793c7673p-45;
  const double small =
      2.0 * s * t * polynomial(artanh, t) + exponent * log2_low;
  return exponent * log2_high + (2.0 * s + small);
}

struct SineCosine {
  double sine;
  double cosine;
};

/// Sine and cosine of 2 pi times `turn`, which lies in [0, 1).
inline SineCosine sine_cosine_of_turn(double turn) {
  constexpr double half_pi = 1.57079632679489661923;
  // Quarter turns are subtracted before pi comes in, so no bit is lost.
  const double quarters = 4.0 * turn;
  // At a tie, or when rounding crosses one, either neighbour is right.
  // NOLINTNEXTLINE(bugprone-incorrect-roundings)
  const int nearest = static_cast<int>(quarters + 0.5);
  const double x = (quarters - nearest) * half_pi; // |x| <= pi / 4
  const double t = x * x;
  // Taylor coefficients: -1/3!, 1/5!, ... and -1/2!, 1/4!, ...
  constexpr std::array<double, 8> sines = {
      -1.0 / 6,
      1.0 / 120,
      -1.0 / 5040,
      1.0 / 362880,
      -1.0 / 39916800,
      1.0 / 6227020800,
      -1.0 / 1307674368000,
      1.0 / 355687428096000};
  constexpr std::array<double, 9> cosines = {
      -1.0 / 2,
      1.0 / 24,
      -1.0 / 720,
      1.0 / 40320,
      -1.0 / 3628800,
      1.0 / 479001600,
      -1.0 / 87178291200,
      1.0 / 20922789888000,
      -1.0 / 6402373705728000};
  const double sine = x + x * (t * polynomial(sines, t));
  const double cosine = 1.0 + t * polynomial(cosines, t);
  // Odd quarters swap the two. Selections are used because branches would be
  // mispredicted half the time.
  const bool odd = (nearest & 1) != 0;
  const double s = odd ? cosine : sine;
  const double c = odd ? sine : cosine;
  return {(nearest & 2) != 0 ? -s : s, ((nearest + 1) & 2) != 0 ? -c : c};
}

} // namespace cairn::base::exact_math
