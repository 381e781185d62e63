#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <vector>

// Collectives within autograd. With a group of one they return their input.

namespace cairn::nn {

using distributed::ProcessGroup;

/// The sum over the group, in place of `x`, which nothing else may have kept.
/// The gradient is already the same on every rank.
at::Tensor reduce_from_group(const at::Tensor& x, const ProcessGroup& group);

/// `x`, which is the same on every rank. The gradient is summed over the group.
at::Tensor copy_to_group(const at::Tensor& x, const ProcessGroup& group);

/// The sum over the group, of which each rank keeps its tokens: [batch,
/// sequence, hidden] to [batch, sequence / ranks, hidden]. The gradient is
/// gathered.
at::Tensor scatter_tokens(const at::Tensor& x, const ProcessGroup& group);

/// The other way round, for what every rank then computes alike: of the
/// gradient each rank takes its tokens' part.
at::Tensor gather_tokens(const at::Tensor& x, const ProcessGroup& group);

/// Back from that: each rank keeps its tokens of what all computed alike. The
/// gradient is gathered.
at::Tensor keep_own_tokens(const at::Tensor& x, const ProcessGroup& group);

/// Part r of the first dimension goes to rank r; the parts that arrive are
/// joined. The gradient goes back the same way.
at::Tensor exchange(const at::Tensor& x, const ProcessGroup& group);

/// Joins what the ranks have along the last dimension; of the gradient each
/// takes its part.
at::Tensor gather_columns(const at::Tensor& x, const ProcessGroup& group);

/// This rank's share of [batch, sequence] integers: [batch, sequence / ranks].
at::Tensor own_tokens(const at::Tensor& ids, const ProcessGroup& group);

/// x times each weight's transpose plus its bias, where the group has the
/// weights' rows in parts; biases may all be undefined. With `split_tokens`
/// the tokens of `x` are gathered first. The sum of the input's gradient over
/// the group runs beside the products for the weights' gradients, once for all
/// weights.
std::vector<at::Tensor> column_linear(
    const at::Tensor& x,
    const std::vector<at::Tensor>& weights,
    const std::vector<at::Tensor>& biases,
    const ProcessGroup& group,
    bool split_tokens);

/// x times the weight's transpose plus bias, where the group has the weight's
/// columns, and the columns of `x`, in parts.
at::Tensor row_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const ProcessGroup& group,
    bool split_tokens);

} // namespace cairn::nn
