#pragma once

#include "nn/linear/gelu.h"

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Weight [out, in] and bias [out], which may be undefined.
struct LinearParameters {
  at::Tensor weight;
  at::Tensor bias;
};

/// Computes residual + linear(gelu(linear(x, up)), down) as one node of
/// autograd, without the sum where `residual` is undefined. On a GPU the
/// products themselves apply GELU and its slope and add the residual, where
/// they can.
at::Tensor gelu_mlp(
    const at::Tensor& x,
    const at::Tensor& residual,
    const LinearParameters& up,
    const LinearParameters& down,
    GeluKind kind);

} // namespace cairn::nn
