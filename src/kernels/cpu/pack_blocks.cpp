#include "kernels/internal/cpu/pack_blocks.h"

#include "kernels/internal/cpu/cpu.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

// Plain loops over one block at a time, which stays in the innermost cache; the
// compiler vectorises them. A byte holds two 4-bit integers, one from the first
// half of a block in the low bits and one from the second half in the high
// bits, so neighbours stay neighbours.

namespace cairn::kernels::cpu {

namespace {

constexpr std::int64_t largest_block = 256;
using Values = std::array<float, largest_block>;

constexpr std::uint32_t bits_of_infinity = 0x7f800000U;
constexpr float no_fraction = 12582912.0F; ///< 1.5 * 2^23: rounds what is added
constexpr int offset_of_4_bits = 8;

/// The largest magnitude. Compares bits, so that inf and nan are the largest.
float largest_of(const float* values, std::int64_t size) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    largest = std::max(
        largest,
        std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffU);
  }
  return std::bit_cast<float>(largest);
}

/// Replaces the values by whole numbers; returns their scale.
float quantize(float* values, std::int64_t size, float most) {
  const float largest = largest_of(values, size);
  const bool finite = std::bit_cast<std::uint32_t>(largest) < bits_of_infinity;
  if (!finite || largest < PackedBlocks::smallest) {
    std::fill_n(values, size, 0.0F);
    return finite ? 0.0F : largest; // inf or nan times zero is nan
  }
  const float inverse = most / largest;
  for (std::int64_t i = 0; i < size; ++i) {
    values[i] = (values[i] * inverse + no_fraction) - no_fraction;
  }
  return largest / most;
}

void store_8_bits(const float* values, std::int64_t size, std::byte* to) {
  auto* out = reinterpret_cast<std::int8_t*>(to);
  for (std::int64_t i = 0; i < size; ++i) {
    out[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(values[i]));
  }
}

void store_4_bits(const float* values, std::int64_t size, std::byte* to) {
  auto* out = reinterpret_cast<std::uint8_t*>(to);
  const std::int64_t half = size / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const auto low = static_cast<std::int32_t>(values[i]) + offset_of_4_bits;
    const auto high =
        static_cast<std::int32_t>(values[i + half]) + offset_of_4_bits;
    out[i] = static_cast<std::uint8_t>(low | high << 4);
  }
}

/// Unpacks the numbers of one block.
void load(
    const PackedBlocks& plan,
    const std::byte* packed,
    std::int64_t number,
    float* to) {
  float scale = 0;
  std::memcpy(&scale, packed + number * 4, sizeof scale);
  const std::byte* from =
      packed + plan.scale_bytes() + number * plan.block * plan.bits / 8;
  const std::int64_t size = plan.size_of(number);
  if (plan.bits == 4) {
    const auto* in = reinterpret_cast<const std::uint8_t*>(from);
    const std::int64_t half = size / 2;
    for (std::int64_t i = 0; i < half; ++i) {
      const std::int32_t both = in[i];
      to[i] = static_cast<float>((both & 15) - offset_of_4_bits) * scale;
      to[i + half] = static_cast<float>((both >> 4) - offset_of_4_bits) * scale;
    }
    return;
  }
  const auto* in = reinterpret_cast<const std::int8_t*>(from);
  for (std::int64_t i = 0; i < size; ++i) {
    to[i] = static_cast<float>(in[i]) * scale;
  }
}

} // namespace

void pack_blocks(
    const PackedBlocks& plan,
    const void* from,
    Element element,
    std::byte* packed,
    std::int64_t begin,
    std::int64_t end) {
  alignas(64) Values values;
  const auto* in = static_cast<const char*>(from);
  for (std::int64_t number = begin; number < end; ++number) {
    const std::int64_t size = plan.size_of(number);
    const std::int64_t first = number * plan.block;
    convert(
        in + first * bytes_of(element),
        element,
        values.data(),
        Element::fp32,
        size);
    const float scale =
        quantize(values.data(), size, static_cast<float>(plan.most()));
    std::memcpy(packed + number * 4, &scale, sizeof scale);
    std::byte* to = packed + plan.scale_bytes() + first * plan.bits / 8;
    if (plan.bits == 4) {
      store_4_bits(values.data(), size, to);
    } else {
      store_8_bits(values.data(), size, to);
    }
  }
}

void unpack_blocks(
    const PackedBlocks& plan,
    const std::byte* packed,
    void* to,
    Element element,
    std::int64_t begin,
    std::int64_t end) {
  alignas(64) Values values;
  auto* out = static_cast<char*>(to);
  for (std::int64_t number = begin; number < end; ++number) {
    load(plan, packed, number, values.data());
    convert(
        values.data(),
        Element::fp32,
        out + number * plan.block * bytes_of(element),
        element,
        plan.size_of(number));
  }
}

void add_blocks(
    const PackedBlocks& plan,
    const std::byte* packed,
    float* into,
    std::int64_t begin,
    std::int64_t end) {
  alignas(64) Values values;
  for (std::int64_t number = begin; number < end; ++number) {
    load(plan, packed, number, values.data());
    float* sums = into + number * plan.block;
    const std::int64_t size = plan.size_of(number);
    for (std::int64_t i = 0; i < size; ++i) {
      sums[i] += values[static_cast<std::size_t>(i)];
    }
  }
}

} // namespace cairn::kernels::cpu
