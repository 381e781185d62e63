#pragma once

#include <ATen/core/Tensor.h>

// Attention to some of the keys, and what is needed to join several such
// results into attention to all keys. Without autograd.

namespace cairn::nn {

/// Queries [batch, queries, heads, size], and the keys and values they look at,
/// which have the same shape with any divisor of the heads.
struct AttentionInput {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

/// [batch, sequence, heads, size] as libtorch's attention has it, and back.
inline at::Tensor heads_first(const at::Tensor& x) {
  return x.transpose(1, 2);
}

/// Options of the scores: which keys a query sees, and the factor.
struct Scores {
  bool causal = false; ///< query i sees keys up to i
  double scale = 1;
};

struct PartialAttention {
  at::Tensor output; ///< [batch, queries, heads, size]
  /// Logarithm of the sum of exponentials of the scores, [batch, heads,
  /// queries], float.
  at::Tensor log_sum;
};

/// Attention of the queries to the given keys.
PartialAttention attend_partly(
    const AttentionInput& input,
    const Scores& scores);

/// Turns `sum`, whose output is a float, into attention to the keys of both.
void join(const PartialAttention& sum, const PartialAttention& part);

struct AttentionGradients {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

/// Gradients of the part of attention that goes to the given keys; `whole` is
/// attention to all keys.
AttentionGradients attend_partly_backward(
    const at::Tensor& gradient,
    const AttentionInput& input,
    const PartialAttention& whole,
    const Scores& scores);

} // namespace cairn::nn
