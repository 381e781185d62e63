#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cairn::inline base::crc32c_detail {

// Polynomials over GF(2) of degree below 32, reflected: the highest bit of the
// word is the coefficient of x^0.
constexpr std::uint32_t castagnoli = 0x82f63b78;
constexpr std::uint32_t one = 0x80000000;

constexpr std::uint32_t times_x(std::uint32_t a) {
  return (a >> 1) ^ ((a & 1) != 0 ? castagnoli : 0);
}

/// a * b modulo the CRC's polynomial.
constexpr std::uint32_t times(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = one; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) {
      product ^= b;
    }
    b = times_x(b);
  }
  return product;
}

/// x^(8 * bytes): multiplying a checksum by it appends that many zero bytes.
constexpr std::uint32_t zero_bytes(std::uint64_t bytes) {
  std::uint32_t power = one >> 8; // x^8
  std::uint32_t result = one;
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) {
      result = times(result, power);
    }
    power = times(power, power);
  }
  return result;
}

/// table[k][b] is a fixed polynomial times byte b at position k of a word.
using Table = std::array<std::array<std::uint32_t, 256>, 4>;

/// A table that multiplies by `factor` in four look-ups instead of 32 steps.
constexpr Table multiplication_table(std::uint32_t factor) {
  Table table{};
  for (std::size_t byte = 0; byte < 4; ++byte) {
    for (std::uint32_t value = 1; value < 256; ++value) {
      const std::uint32_t others = value & (value - 1);
      table[byte][value] = others == 0
          ? times(factor, value << (8 * byte))
          : table[byte][others] ^ table[byte][value ^ others];
    }
  }
  return table;
}

constexpr std::uint32_t times(const Table& table, std::uint32_t a) {
  return table[0][a & 0xff] ^ table[1][(a >> 8) & 0xff] ^
      table[2][(a >> 16) & 0xff] ^ table[3][a >> 24];
}

} // namespace cairn::base::crc32c_detail
