#pragma once

#include <algorithm>
#include <cstdint>

namespace cairn::kernels {

/// Layout of numbers packed as blocks of small signed integers, each block with
/// one fp32 scale: first all scales, then all integers. Unpacking gives each
/// number back to within half a scale, which is the block's largest magnitude
/// divided by 2 * most(). A block whose numbers are all below `smallest`
/// unpacks to zeros, and an inf or nan makes its whole block nan.
struct PackedBlocks {
  int bits = 8;             ///< 8 or 4
  std::int64_t block = 256; ///< elements per scale; the last block may be short
  std::int64_t count = 0;   ///< number of elements; even for 4 bits

  static constexpr float smallest = 1e-30F;

  constexpr int most() const { return bits == 4 ? 7 : 127; }
  constexpr std::int64_t blocks() const { return (count + block - 1) / block; }
  constexpr std::int64_t size_of(std::int64_t number) const {
    return std::min(block, count - number * block);
  }
  constexpr std::int64_t scale_bytes() const { return blocks() * 4; }
  constexpr std::int64_t bytes() const {
    return scale_bytes() + count * bits / 8;
  }
};

} // namespace cairn::kernels
