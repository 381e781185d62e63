#include "kernels/internal/cpu/dropout.h"

#include "kernels/formulas/dropout_bits.h"
#include "kernels/internal/cpu/cpu.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

// Plain loops over a few columns at a time, which stay in the innermost cache.

namespace cairn::kernels::cpu {
namespace {

constexpr std::size_t draws_at_once = 16;
constexpr std::size_t columns_at_once = draws_at_once * columns_of_a_draw;
using Bits = std::array<std::uint16_t, columns_at_once>;

/// The bits of all columns of `draws_at_once` draws.
void fill(
    Bits& bits,
    const RowCounter& counter,
    std::uint64_t key,
    std::uint32_t first) {
  static_assert(std::endian::native == std::endian::little);
  alignas(64) std::array<std::uint32_t, 4 * draws_at_once> in_order;
  for (std::size_t k = 0; k < draws_at_once; ++k) {
    const Philox4x32 draw =
        draw_of(counter, key, first + static_cast<std::uint32_t>(k));
    std::copy_n(draw.words, 4, in_order.begin() + 4 * k);
  }
  static_assert(sizeof in_order == sizeof bits);
  std::memcpy(bits.data(), in_order.data(), sizeof bits);
}

void drop(
    const float* from,
    float* to,
    const Bits& bits,
    std::int64_t count,
    std::uint32_t threshold,
    float scale) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float kept = from[i] * scale;
    to[i] = bits[static_cast<std::size_t>(i)] < threshold ? 0.0F : kept;
  }
}

} // namespace

void dropout_rows(
    const DropoutRows& x,
    const void* from,
    void* to,
    std::int64_t begin,
    std::int64_t end) {
  const std::int64_t bytes = bytes_of(x.element);
  const bool floats = x.element == Element::fp32;
  alignas(64) Bits bits;
  alignas(64) std::array<float, columns_at_once> values;
  for (std::int64_t row = begin; row < end; ++row) {
    const RowCounter counter = counter_of(x, row);
    constexpr auto step = static_cast<std::int64_t>(columns_at_once);
    for (std::int64_t first = 0; first < x.columns; first += step) {
      fill(
          bits,
          counter,
          x.key,
          static_cast<std::uint32_t>(
              (x.first_column + first) / columns_of_a_draw));
      const std::int64_t count = std::min(step, x.columns - first);
      const std::int64_t offset = (row * x.columns + first) * bytes;
      const char* in = static_cast<const char*>(from) + offset;
      char* out = static_cast<char*>(to) + offset;
      if (floats) {
        drop(
            reinterpret_cast<const float*>(in),
            reinterpret_cast<float*>(out),
            bits,
            count,
            x.threshold,
            x.scale);
        continue;
      }
      convert(in, x.element, values.data(), Element::fp32, count);
      drop(values.data(), values.data(), bits, count, x.threshold, x.scale);
      convert(values.data(), Element::fp32, out, x.element, count);
    }
  }
}

} // namespace cairn::kernels::cpu
