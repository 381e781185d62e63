#pragma once

#include "base/internal/philox.h"
#include "kernels/internal/dropout_rows.h"

#include <cstdint>

// The random bits of a dropout, alike on CPU and GPU: constexpr functions on
// plain types. A Philox of four words has the 16 bits of eight columns.

namespace cairn::kernels {

inline constexpr int columns_of_a_draw = 8;

/// The part of the generator's counter that the elements of a row share.
struct RowCounter {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

/// The counter of a token of a sample, in one of the layer's heads.
constexpr RowCounter counter_at(
    std::int64_t sample,
    std::uint64_t head,
    std::int64_t position) {
  return {
      static_cast<std::uint64_t>(position) << 32U,
      static_cast<std::uint64_t>(sample) | head << 48U};
}

/// The counter of row `row` of the matrix.
constexpr RowCounter counter_of(const DropoutRows& x, std::int64_t row) {
  const auto number = static_cast<std::uint64_t>(x.first_row + row);
  const auto tokens = static_cast<std::uint64_t>(x.tokens);
  const std::uint64_t plane = number / tokens;
  const auto token = static_cast<std::int64_t>(number - plane * tokens);
  std::uint64_t sample = plane;
  std::uint64_t head = 0;
  if (x.heads > 1) {
    const auto heads = static_cast<std::uint64_t>(x.heads);
    sample = plane / heads;
    head = plane - sample * heads;
  }
  const std::int64_t position = token < x.early
      ? x.early_begin + token
      : x.late_begin + (token - x.early);
  return counter_at(
      x.samples[sample],
      static_cast<std::uint64_t>(x.first_head) + head,
      position);
}

/// The random words of columns 8 `eight` to 8 `eight` + 7.
constexpr Philox4x32 draw_of(
    const RowCounter& counter,
    std::uint64_t key,
    std::uint32_t eight) {
  return Philox4x32::at(counter.low | eight, counter.high, key);
}

/// The 16 bits of column `column` of the eight.
constexpr std::uint32_t bits_of(const Philox4x32& draw, int column) {
  return draw.words[column / 2] >> (column % 2 * 16) & 0xffffU;
}

} // namespace cairn::kernels
