#pragma once

#include "nn/attention/partial_attention.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/attention_noise.h>
#include <cairn/nn/placed_scores.h>

#include <cstdint>

namespace cairn::nn {

// Attention with dropped weights by our own kernel for GPUs. Weights are never
// written to memory, and those that are dropped are the same as on the CPU.

/// Options of this attention.
struct DroppedScores {
  /// `causal`: queries see keys at positions up to their own.
  Scores scores;
  /// True where a query sees a key, or added to the scores; [batch or 1, heads
  /// or 1, queries, keys]. May be undefined.
  at::Tensor mask{};
  /// Numbers of the documents of tokens, int, [batch, queries] and [batch,
  /// keys]: queries see the keys of their own document. May be undefined.
  at::Tensor query_documents{};
  at::Tensor key_documents{};
  /// Added to the scores by place, not beside a mask; may be undefined. See
  /// PlacedScores.
  PlacedScores placed{};
  double dropout = 0;     ///< of weights
  AttentionNoise noise{}; ///< which of them; has samples
  /// Positions of the first query and the first key in the sequence.
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
};

/// True when the functions below take these tensors, on a GPU: 16 bits, and
/// heads of a multiple of 8 up to 128.
bool attends_fused(const AttentionInput& input, const DroppedScores& how);

/// Attention to the given keys, with the type of the queries. Without autograd.
/// Several results are put together by join(), as without dropout.
PartialAttention fused_forward(
    const AttentionInput& input,
    const DroppedScores& how);

/// Gradients of the part of attention that goes to the given keys; `whole` is
/// attention to all keys. They lie densely. That of `how.placed.by_distance` is
/// written to `by_distance`, unless it is null.
AttentionGradients fused_backward(
    const at::Tensor& gradient,
    const AttentionInput& input,
    const PartialAttention& whole,
    const DroppedScores& how,
    at::Tensor* by_distance = nullptr);

/// Attention [batch, queries, heads, size], for autograd. A mask that is added
/// may have a gradient.
at::Tensor attend_fused(const AttentionInput& input, const DroppedScores& how);

} // namespace cairn::nn
