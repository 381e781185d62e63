#pragma once

#include <ATen/core/Tensor.h>

// Attention to some of the keys, and what is needed to join several such
// results into attention to all keys. Without autograd.

namespace cairn::nn {

struct PartialAttention {
  at::Tensor output; ///< [batch, queries, heads, size]
  /// Logarithm of the sum of exponentials of the scores, [batch, heads,
  /// queries], float.
  at::Tensor log_sum;
};

/// Attention of query [batch, queries, heads, size] to key and value, which
/// have the same shape with any divisor of the heads.
PartialAttention attend_partly(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    bool causal,
    double scale);

/// Turns `sum`, whose output is a float, into attention to the keys of both.
void join(const PartialAttention& sum, const PartialAttention& part);

struct AttentionGradients {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

/// Gradients of the part of attention that goes to `key`; `whole` is attention
/// to all keys.
AttentionGradients attend_partly_backward(
    const at::Tensor& gradient,
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const PartialAttention& whole,
    bool causal,
    double scale);

} // namespace cairn::nn
