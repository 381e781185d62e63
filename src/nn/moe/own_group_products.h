#pragma once

#include "nn/linear/gelu.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/mixture.h>

namespace cairn::nn {

// Products of groups of rows by our own kernel (kernels/internal/cuda/
// grouped_product.h), with the operations after them. Without autograd.
// `weight` is [groups, out, in].

/// True when the kernel takes such matrices: bf16 on a Hopper GPU.
bool has_own_products(const at::Tensor& x, const at::Tensor& weight);

/// Multiplies each group of rows, [rows, in], by its transposed weight, and
/// adds its bias, [groups, out], if that is defined.
at::Tensor own_products(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const RowGroups& groups);

struct GroupGelu {
  at::Tensor sums; ///< own_products()
  at::Tensor result;
};

/// own_products() and GELU of them.
GroupGelu own_products_gelu(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    GeluKind kind,
    const RowGroups& groups);

/// Multiplies each group of gradients, [rows, out], by its weight.
at::Tensor own_input_gradients(
    const at::Tensor& gradient,
    const at::Tensor& weight,
    const RowGroups& groups);

struct GroupGeluGradients {
  at::Tensor x;
  at::Tensor bias; ///< sums of the groups of `x`, in fp32
};

/// own_input_gradients() times the slope of GELU at `sums`.
GroupGeluGradients own_gelu_gradients(
    const at::Tensor& gradient,
    const at::Tensor& weight,
    const at::Tensor& sums,
    GeluKind kind,
    const RowGroups& groups);

/// True when the kernel can write gradients of weights there.
bool takes_own_weight_gradients(const at::Tensor& into);

/// Sets `into`, [groups, out, in], to the gradients of weights, or adds them to
/// it.
void own_weight_gradients_into(
    const at::Tensor& into,
    const at::Tensor& gradient,
    const at::Tensor& x,
    const RowGroups& groups,
    bool add);

} // namespace cairn::nn
