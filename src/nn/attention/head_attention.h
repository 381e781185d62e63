#pragma once

#include "nn/attention/partial_attention.h"

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// True when attend_by_heads() takes these tensors, and is faster than
/// libtorch.
bool attends_by_heads(const AttentionInput& input, double dropout);

/// attend_partly() with our own kernel, and its backward.
PartialAttention heads_forward(
    const AttentionInput& input,
    const Scores& scores);
AttentionGradients heads_backward(
    const at::Tensor& gradient,
    const AttentionInput& input,
    const PartialAttention& whole,
    const Scores& scores);

/// Attention of [batch, queries, heads, size] to [batch, keys, groups, size];
/// returns [batch, queries, heads * size]. A group's keys and values serve
/// several heads.
at::Tensor attend_by_heads(const AttentionInput& input, const Scores& scores);

/// True when attend_joined() takes this tensor, and is faster than libtorch.
bool attends_joined(const at::Tensor& joined, const Scores& scores);

/// attend_by_heads() of queries, keys and values that lie together in [batch,
/// sequence, groups, heads of a group + 2, size].
at::Tensor attend_joined(const at::Tensor& joined, const Scores& scores);

} // namespace cairn::nn
