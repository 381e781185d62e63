#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cairn::nn {

/// The numbers that decide, together with positions, which weights of attention
/// are dropped.
struct AttentionNoise {
  std::uint64_t key = 0; ///< of the run's seed and the layer
  /// Numbers of the samples in the run, [batch]; see sample_numbers().
  /// Undefined: they are drawn.
  at::Tensor samples{};
  std::int64_t first_head = 0; ///< the first of these heads in the layer
};

} // namespace cairn::nn
