#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Weights of a gated MLP without biases: gate and up [ffn, hidden], down
/// [hidden, ffn].
struct SwiGluWeights {
  at::Tensor gate;
  at::Tensor up;
  at::Tensor down;
};

/// Computes residual + linear(swiglu(linear(x, gate), linear(x, up)), down) as
/// one node of autograd, without the sum where `residual` is undefined. Both
/// gradients of x are summed by a product, and a GPU's product adds the
/// residual.
at::Tensor swiglu_mlp(
    const at::Tensor& x,
    const at::Tensor& residual,
    const SwiGluWeights& weights);

} // namespace cairn::nn
