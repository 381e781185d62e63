#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/nn/mixture.h>

namespace cairn::nn {

/// Multiplies each group of rows of `x`, [rows, in], by its own transposed
/// weight, [groups, out, in], and adds its bias, [groups, out], if that is
/// defined. One node of autograd. The rows of nobody are of no use afterwards,
/// and so are their gradients.
///
/// On a GPU, 16-bit products of all groups are one kernel, for which the host
/// need not know the groups (see multiplies_groups). Elsewhere each group is a
/// product, and where the host does not know the groups, it reads them.
at::Tensor grouped_product(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const RowGroups& groups);

/// True when grouped_product() is one kernel for matrices of this kind.
bool multiplies_groups(const at::Tensor& x, const at::Tensor& weight);

} // namespace cairn::nn
