#pragma once

#include "nn/attention/partial_attention.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/attention_noise.h>
#include <cairn/nn/fp8_scaling.h>
#include <cairn/nn/placed_scores.h>

#include <cstdint>
#include <optional>

namespace cairn::nn {

/// The product that makes queries, keys and values, which then lie together in
/// [batch, sequence, groups, queries of a group + 2, size].
struct JoinedProjection {
  at::Tensor weight;
  at::Tensor bias; ///< may be undefined
  std::int64_t groups = 0;
  std::int64_t size = 0; ///< of a head
  std::optional<Fp8Use> fp8{};
};

/// Cosines and sines of rotary positions, [1 or batch, sequence, 1, size / 2].
/// Undefined ones turn nothing.
struct RotaryAngles {
  at::Tensor cosine{};
  at::Tensor sine{};
};

/// Options of the attention of a whole sequence to itself.
struct SelfScores {
  Scores scores;
  RotaryAngles angles{};
  /// Added to the scores, or true where a query sees a key, as libtorch takes
  /// it; may be undefined.
  at::Tensor mask{};
  PlacedScores placed{};  ///< not beside a mask
  double dropout = 0;     ///< of weights
  AttentionNoise noise{}; ///< which of them
};

/// True when attend_joined_on_gpu() takes this tensor: libtorch would choose
/// cuDNN's attention for it, or weights are dropped or scores placed, and
/// attends_fused().
bool attends_joined_on_gpu(const at::Tensor& joined, const SelfScores& scores);

/// Attention of queries, keys and values that lie together, by cuDNN, or by our
/// own kernel where weights are dropped or scores placed; returns [batch,
/// sequence, heads, size]. Their gradients are put together in one pass, as the
/// product before it reads them; rotary positions are part of it.
at::Tensor attend_joined_on_gpu(
    const at::Tensor& joined,
    const SelfScores& scores);

/// Computes attend_joined_on_gpu(linear(x, weight, bias)), and sums the bias's
/// gradient while the others are put together. Heads whose size is no multiple
/// of 8, or of 16 with rotary positions, are made longer. Nothing where that
/// attention does not take the tensor.
std::optional<at::Tensor> project_and_attend_on_gpu(
    const LayerInput& x,
    const JoinedProjection& projection,
    const SelfScores& scores);

} // namespace cairn::nn
