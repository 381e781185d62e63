#pragma once

#include "nn/linear/gelu_mlp.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/fp8_scaling.h>

namespace cairn::nn {

/// gelu_mlp() whose products have factors in fp8; weights and rows must be such
/// that fp8_takes(). GELU and its slope are
/// computed while the factors are rounded, and only the sums before GELU are
/// kept in 16 bits. The second product has the format of the first.
at::Tensor fp8_gelu_mlp(
    const LayerInput& x,
    const at::Tensor& residual,
    const LinearParameters& up,
    const LinearParameters& down,
    GeluKind kind,
    const Fp8Use& fp8_up,
    const Fp8Use& fp8_down);

} // namespace cairn::nn
