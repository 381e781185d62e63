#pragma once

#include "nn/partial_attention.h"

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Whether attend_by_heads() can do it, and faster than libtorch.
bool attends_by_heads(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    double dropout);

/// attend_partly() and its way back.
PartialAttention heads_forward(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    bool causal,
    double scale);
AttentionGradients heads_backward(
    const at::Tensor& gradient,
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const PartialAttention& whole,
    bool causal,
    double scale);

/// [batch, queries, heads * size] from [batch, queries, heads, size] and
/// [batch, keys, groups, size]: a group's keys and values serve several heads.
at::Tensor attend_by_heads(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    bool causal,
    double scale);

/// Whether attend_joined() can do it: a query's heads must lie in equal steps.
bool attends_joined(const at::Tensor& joined, double dropout);

/// As attend_by_heads(), of queries, keys and values that lie together in
/// [batch, sequence, groups, heads of a group + 2, size].
at::Tensor attend_joined(const at::Tensor& joined, bool causal, double scale);

} // namespace cairn::nn
