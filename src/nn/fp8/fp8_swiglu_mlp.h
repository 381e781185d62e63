#pragma once

#include "nn/linear/swiglu_mlp.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/fp8_scaling.h>

namespace cairn::nn {

/// How the products of a gated MLP are in fp8. All have the format of `gate`,
/// and both first products have the input's scale of `gate`.
struct Fp8SwiGluUse {
  Fp8Use gate;
  Fp8Use up;
  Fp8Use down;
};

/// swiglu_mlp() whose products have factors in fp8; weights and rows must be
/// such that fp8_takes(). SwiGLU and its gradients are computed while the
/// factors are rounded, and only the results of the first two products are kept
/// in 16 bits.
at::Tensor fp8_swiglu_mlp(
    const LayerInput& x,
    const at::Tensor& residual,
    const SwiGluWeights& weights,
    const Fp8SwiGluUse& fp8);

} // namespace cairn::nn
