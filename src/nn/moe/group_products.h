#pragma once

#include "nn/internal/deferred_gradients.h"
#include "nn/moe/own_group_products.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/mixture.h>

#include <memory>

namespace cairn::nn {

// Products of groups of rows, [rows, in], with weights, [groups, out, in], and
// their gradients. Without autograd.

/// True when the products of all groups are one kernel on a GPU, for which the
/// host need not know the groups.
bool are_for_one_kernel(const at::Tensor& x, const at::Tensor& weight);

/// True when are_for_one_kernel() will be true of both after autocast has
/// changed their types.
bool will_be_for_one_kernel(const at::Tensor& x, const at::Tensor& weight);

/// Multiplies each group by its transposed weight, and adds its bias, [groups,
/// out], if that is defined.
at::Tensor group_products(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const RowGroups& groups);

/// Multiplies each group of gradients, [rows, out], by its weight.
at::Tensor input_gradients(
    const at::Tensor& gradient,
    const at::Tensor& weight,
    const RowGroups& groups);

/// group_products() and GELU of them, for matrices of 16 bits on a GPU.
GroupGelu group_products_gelu(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    GeluKind kind,
    const RowGroups& groups);

/// input_gradients() times the slope of GELU at `sums`, for matrices of 16 bits
/// on a GPU.
GroupGeluGradients group_gelu_gradients(
    const at::Tensor& gradient,
    const at::Tensor& weight,
    const at::Tensor& sums,
    GeluKind kind,
    const RowGroups& groups);

/// Gradients of all weights, now or, where `later` is set and takes the weight,
/// then. Returns nothing in that case, and where they are wanted in a place of
/// their own (kernels::gradient_place), to which they are written or added.
at::Tensor weight_gradients_or_later(
    const std::shared_ptr<DeferredGradients>& later,
    const at::Tensor& weight,
    const at::Tensor& gradient,
    const at::Tensor& x,
    const RowGroups& groups);

} // namespace cairn::nn
