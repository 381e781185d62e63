#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Computes gradient^T x, the gradient of the weight in x weight^T. Writes it
/// directly to the place where that gradient is wanted, if there is one
/// (kernels::gradient_place).
at::Tensor weight_gradient(
    const at::Tensor& weight,
    const at::Tensor& gradient,
    const at::Tensor& x);

} // namespace cairn::nn
