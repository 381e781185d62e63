#pragma once

#include "nn/attention/partial_attention.h"
#include "nn/attention/sequence_halves.h"

#include <cairn/nn/attention_noise.h>

#include <vector>

namespace cairn::nn {

/// Which weights a part of attention drops: those that attention to all keys
/// drops at the same positions.
struct PartialNoise {
  double dropout = 0;
  AttentionNoise noise{}; ///< its samples are those of the part, and defined
  /// Positions of the queries, and of the keys, as one stretch or two.
  std::vector<TokenRange> queries{};
  std::vector<TokenRange> keys{};
};

/// attend_partly() with dropped weights. The log sums are those of all weights,
/// so that parts join as without dropout. Computes in float, one group of heads
/// at a time, and writes the matrix of that group's weights.
PartialAttention attend_dropping_partly(
    const AttentionInput& input,
    const Scores& scores,
    const PartialNoise& noise);

/// attend_partly_backward() with dropped weights, in float.
AttentionGradients attend_dropping_partly_backward(
    const at::Tensor& gradient,
    const AttentionInput& input,
    const PartialAttention& whole,
    const Scores& scores,
    const PartialNoise& noise);

} // namespace cairn::nn
