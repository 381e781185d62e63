#pragma once

#include "base/internal/philox.h"

#include <cstdint>

namespace cairn::kernels {

/// The keys of the rounds of Philox4x32. A GPU reads them from the memory of a
/// kernel's parameters at no cost, and otherwise computes them for each draw.
struct PhiloxRounds {
  std::uint32_t keys[20] = {};

  PhiloxRounds() = default;
  explicit constexpr PhiloxRounds(std::uint64_t key) {
    auto low = static_cast<std::uint32_t>(key);
    auto high = static_cast<std::uint32_t>(key >> 32U);
    for (int i = 0; i < 20; i += 2) {
      keys[i] = low;
      keys[i + 1] = high;
      low += 0x9E3779B9U;
      high += 0xBB67AE85U;
    }
  }

  /// The same words as Philox4x32::at() gives with the key.
  constexpr Philox4x32 at(std::uint64_t counter_low, std::uint64_t counter_high)
      const {
    auto c0 = static_cast<std::uint32_t>(counter_low);
    auto c1 = static_cast<std::uint32_t>(counter_low >> 32U);
    auto c2 = static_cast<std::uint32_t>(counter_high);
    auto c3 = static_cast<std::uint32_t>(counter_high >> 32U);
    for (int i = 0; i < 20; i += 2) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0;
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c2;
      c0 = static_cast<std::uint32_t>(p1 >> 32U) ^ c1 ^ keys[i];
      c1 = static_cast<std::uint32_t>(p1);
      c2 = static_cast<std::uint32_t>(p0 >> 32U) ^ c3 ^ keys[i + 1];
      c3 = static_cast<std::uint32_t>(p0);
    }
    return {{c0, c1, c2, c3}};
  }
};

} // namespace cairn::kernels
