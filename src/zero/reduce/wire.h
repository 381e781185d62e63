#pragma once

#include "kernels/internal/packed_blocks.h"

#include <cstdint>

namespace cairn::zero {

/// The form of numbers between ranks: as they are, or as blocks of small
/// integers with one scale each.
enum class Wire { exact, int8, int4 };

/// The blocks of `elements` numbers; not for Wire::exact.
constexpr kernels::PackedBlocks blocks_of(Wire wire, std::int64_t elements) {
  return wire == Wire::int4
      ? kernels::PackedBlocks{.bits = 4, .block = 128, .count = elements}
      : kernels::PackedBlocks{.bits = 8, .block = 256, .count = elements};
}

/// Bytes of `elements` numbers on the wire. Each has `element_bytes` if the
/// wire is exact.
constexpr std::int64_t wire_bytes(
    Wire wire,
    std::int64_t elements,
    std::int64_t element_bytes) {
  return wire == Wire::exact ? elements * element_bytes
                             : blocks_of(wire, elements).bytes();
}

} // namespace cairn::zero
