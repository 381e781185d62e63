#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/nn/fp8_scaling.h>

#include <optional>

namespace cairn::nn {

/// linear() whose products, also those of the gradients, have factors in fp8.
/// It is the plain linear() without fp8, and for matrices that fp8 products do
/// not take.
at::Tensor fp8_linear(
    const LayerInput& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const std::optional<Fp8Use>& fp8);

} // namespace cairn::nn
