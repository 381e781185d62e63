#pragma once

#include <algorithm>
#include <cstdint>

namespace cairn::kernels {

/// Numbers as blocks of small signed integers, each block with one fp32 scale:
/// first all scales, then all integers. A number differs from what comes out by
/// at most half a scale, which is the block's largest magnitude divided by
/// 2 * most(); blocks below `smallest` come out as zeros, and an inf or nan
/// makes all of its block nan.
struct PackedBlocks {
  int bits = 8;             ///< 8 or 4
  std::int64_t block = 256; ///< elements that share a scale; the last may be
                            ///< fewer
  std::int64_t count = 0;   ///< of elements; even for 4 bits

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
