#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <vector>

// Collectives within autograd. With a group of one they return their input.

namespace cairn::nn {

using distributed::ProcessGroup;

/// Sums `x` over the group, in place: nothing else may have kept `x`. The
/// gradient is already the same on every rank.
at::Tensor reduce_from_group(const at::Tensor& x, const ProcessGroup& group);

/// Returns `x`, which is the same on every rank. The gradient is summed over
/// the group.
at::Tensor copy_to_group(const at::Tensor& x, const ProcessGroup& group);

/// Sums `x` over the group; each rank keeps its tokens: [batch, sequence,
/// hidden] to [batch, sequence / ranks, hidden]. The gradient is gathered.
at::Tensor scatter_tokens(const at::Tensor& x, const ProcessGroup& group);

/// Gathers the tokens of all ranks, for computations that are the same on every
/// rank. Each rank takes the gradient of its own tokens.
at::Tensor gather_tokens(const at::Tensor& x, const ProcessGroup& group);

/// The reverse of gather_tokens(), after such computations: each rank keeps its
/// own tokens. The gradient is gathered.
at::Tensor keep_own_tokens(const at::Tensor& x, const ProcessGroup& group);

/// Sends part r of the first dimension to rank r and joins the parts that
/// arrive. The gradient goes back the same way.
at::Tensor exchange(const at::Tensor& x, const ProcessGroup& group);

/// Joins the ranks' parts along the last dimension. Each rank takes its part of
/// the gradient.
at::Tensor gather_columns(const at::Tensor& x, const ProcessGroup& group);

/// This rank's share of [batch, sequence] integers, [batch, sequence / ranks].
at::Tensor own_tokens(const at::Tensor& ids, const ProcessGroup& group);

/// The place of the tokens on the outer side of a parallel product: of the
/// input of column_linear() and of the result of row_linear().
enum class TokenSplit {
  none,  ///< every rank has all tokens
  split, ///< each rank has a share of them
  /// Each rank has a share, and shares travel while products of other tokens
  /// are computed. Sums over ranks and tokens may be taken in another order
  /// than with `split`.
  overlapped
};

/// Computes x times each weight's transpose plus its bias, where each rank of
/// the group has some of the weights' rows. The biases may all be undefined.
/// Tokens of `x` that are split are gathered. The sum of the input's gradient
/// over the group, one for all weights, runs beside the products for the
/// weights' gradients.
std::vector<at::Tensor> column_linear(
    const at::Tensor& x,
    const std::vector<at::Tensor>& weights,
    const std::vector<at::Tensor>& biases,
    const ProcessGroup& group,
    TokenSplit tokens);

/// Computes x times the weight's transpose plus bias, where each rank of the
/// group has some of the weight's columns and the same columns of `x`. The
/// group's first rank adds the bias within its product, so that the sum over
/// the ranks has it once.
at::Tensor row_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const ProcessGroup& group,
    TokenSplit tokens);

} // namespace cairn::nn
