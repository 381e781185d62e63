#pragma once

#include "nn/linear/gelu.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/mixture.h>

namespace cairn::nn {

// Groups of rows of a matrix, [rows, columns].

/// Adds its group's bias, one of [groups, columns], to each row of `x`. Without
/// autograd.
void add_group_biases(
    const at::Tensor& x,
    const at::Tensor& biases,
    const RowGroups& groups);

/// The sum of each group's rows, [groups, columns]. That of 16-bit rows on a
/// GPU is in float. Without autograd.
at::Tensor group_sums(const at::Tensor& x, const RowGroups& groups);

/// Adds its group's bias, if `biases` are defined, to each row of `x`, which is
/// for our kernels on a GPU, and returns GELU of the sums. Without autograd.
at::Tensor group_gelu(
    const at::Tensor& x,
    const at::Tensor& biases,
    GeluKind kind,
    const RowGroups& groups);

/// Multiplies `gradient` by the slope of GELU at `x`, in place, and returns the
/// sums of its groups in float. Without autograd.
at::Tensor group_gelu_backward(
    const at::Tensor& gradient,
    const at::Tensor& x,
    GeluKind kind,
    const RowGroups& groups);

/// The rows of `x` plus their groups' biases, with autograd.
at::Tensor with_group_biases(
    const at::Tensor& x,
    const at::Tensor& biases,
    const RowGroups& groups);

} // namespace cairn::nn
