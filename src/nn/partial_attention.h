#pragma once

#include <ATen/core/Tensor.h>

// Attention to some of the keys, and what it takes to put several such together
// to attention to all. Without autograd.

namespace cairn::nn {

struct PartialAttention {
  at::Tensor output;  ///< [batch, queries, heads, size]
  at::Tensor log_sum; ///< [batch, heads, queries], float: of the scores
};

/// query [batch, queries, heads, size], key and value likewise with any divisor
/// of the heads.
PartialAttention attend_partly(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    bool causal,
    double scale);

/// Makes of `sum`, whose output is a float, attention to the keys of both.
void join(const PartialAttention& sum, const PartialAttention& part);

struct AttentionGradients {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

/// Of the part of attention to `whole` keys that is attention to `key`.
AttentionGradients attend_partly_backward(
    const at::Tensor& gradient,
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const PartialAttention& whole,
    bool causal,
    double scale);

} // namespace cairn::nn
