#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/nn/layer.h>

#include <optional>

namespace cairn::nn {

/// linear() whose products, also those of the gradients, have factors in fp8.
/// It is the plain linear() without a format, and for matrices that fp8
/// products do not take.
at::Tensor fp8_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    std::optional<Fp8Format> format);

} // namespace cairn::nn
