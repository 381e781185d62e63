#pragma once

#include "nn/linear/gelu_mlp.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/layer.h>

namespace cairn::nn {

/// True when fp8_gelu_mlp() takes an input and weights of these sizes.
bool fp8_gelu_mlp_takes(const at::Tensor& x, const at::Tensor& up);

/// gelu_mlp() whose products have factors in fp8. GELU and its slope are
/// computed while the factors are rounded, and only the sums before GELU are
/// kept in 16 bits.
at::Tensor fp8_gelu_mlp(
    const at::Tensor& x,
    const at::Tensor& residual,
    const LinearParameters& up,
    const LinearParameters& down,
    GeluKind kind,
    Fp8Format format);

} // namespace cairn::nn
