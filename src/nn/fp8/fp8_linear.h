#pragma once

#include "nn/fp8/rounded_gradient.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/fp8_scaling.h>

#include <optional>

namespace cairn::nn {

/// The way on which fp8_linear() takes the gradient of its result in fp8. Null
/// where it rounds the gradient itself: while there is no unit for it, and
/// where it is the plain linear().
RoundedGradientPtr way_of_rounded_gradient(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<Fp8Use>& fp8);

/// linear() whose products, also those of the gradients, have factors in fp8.
/// It is the plain linear() without fp8, and for matrices that fp8 products do
/// not take. `rounded` is the way of its gradient, or null.
at::Tensor fp8_linear(
    const LayerInput& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const std::optional<Fp8Use>& fp8,
    const RoundedGradientPtr& rounded = {});

} // namespace cairn::nn
