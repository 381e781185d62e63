#pragma once

#include "nn/linear/gelu.h"
#include "nn/linear/gelu_mlp.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/mixture.h>

namespace cairn::nn {

/// True when grouped_gelu_mlp() takes such rows: 16 bits on a GPU, in a program
/// that has our kernels.
bool has_grouped_gelu_mlp(
    const at::Tensor& x,
    const at::Tensor& up,
    const at::Tensor& down);

/// Computes gelu_mlp() of each group of rows with its own weights, [groups,
/// out, in], and biases, [groups, out], as one node of autograd. Bias and GELU
/// are one pass, and so are the gradients of both. GELU's results are kept for
/// backward, or computed again.
at::Tensor grouped_gelu_mlp(
    const at::Tensor& x,
    const LinearParameters& up,
    const LinearParameters& down,
    GeluKind kind,
    const RowGroups& groups,
    Activated activated = Activated::kept);

} // namespace cairn::nn
