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

/// Computes linear(swiglu(linear(x, gate), linear(x, up)), down) as one node of
/// autograd, in which both gradients of x are summed by a product.
at::Tensor swiglu_mlp(const at::Tensor& x, const SwiGluWeights& weights);

} // namespace cairn::nn
