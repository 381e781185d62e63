#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace cairn::model {

/// Number of tokens whose scores the head computes at a time: few enough that
/// the scores stay small beside the weights, enough that products with the
/// weights pay. `rows`: the words that a rank scores.
inline std::int64_t tokens_per_head_chunk(std::int64_t rows, bool on_cpu) {
  constexpr std::int64_t least = 256;
  const std::int64_t scores = std::int64_t{1} << (on_cpu ? 24 : 29);
  const std::int64_t tokens =
      std::max(least, scores / std::max<std::int64_t>(rows, 1));
  // A power of two divides most batches and fits the tiles of a GPU's product.
  return on_cpu ? tokens
                : static_cast<std::int64_t>(
                      std::bit_floor(static_cast<std::uint64_t>(tokens)));
}

} // namespace cairn::model
