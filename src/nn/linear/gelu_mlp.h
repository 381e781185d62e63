#pragma once

#include "nn/linear/gelu.h"

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Weight [out, in] and bias [out], which may be undefined.
struct LinearParameters {
  at::Tensor weight;
  at::Tensor bias;
};

/// Computes linear(gelu(linear(x, up)), down) as one node of autograd. On a GPU
/// the products themselves apply GELU and its slope, where they can.
at::Tensor gelu_mlp(
    const at::Tensor& x,
    const LinearParameters& up,
    const LinearParameters& down,
    GeluKind kind);

} // namespace cairn::nn
