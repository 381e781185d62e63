#pragma once

#include <cstdint>

namespace cairn {
inline namespace base { // apart, since .cu files are not C++20

/// Philox4x32-10 of "Parallel random numbers: as easy as 1, 2, 3" (Salmon et
/// al., 2011): a function from a counter and a key to four random words, so any
/// element of a sequence can be computed without the elements before it.
///
/// Has only constexpr functions on plain types, so that device code can call it
/// (nvcc: --expt-relaxed-constexpr) and draw the same numbers.
struct Philox4x32 {
  std::uint32_t words[4];

  static constexpr Philox4x32 at(
      std::uint64_t counter_low,
      std::uint64_t counter_high,
      std::uint64_t key) {
    std::uint32_t c0 = static_cast<std::uint32_t>(counter_low);
    std::uint32_t c1 = static_cast<std::uint32_t>(counter_low >> 32);
    std::uint32_t c2 = static_cast<std::uint32_t>(counter_high);
    std::uint32_t c3 = static_cast<std::uint32_t>(counter_high >> 32);
    std::uint32_t k0 = static_cast<std::uint32_t>(key);
    std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0;
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c2;
      c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<std::uint32_t>(p1);
      c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<std::uint32_t>(p0);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    return {{c0, c1, c2, c3}};
  }

  /// Words 0 and 1 (half 0) or 2 and 3 (half 1) as one number.
  constexpr std::uint64_t pair(std::uint64_t half) const {
    return words[2 * half] | (std::uint64_t{words[2 * half + 1]} << 32);
  }
};

} // namespace base
} // namespace cairn
