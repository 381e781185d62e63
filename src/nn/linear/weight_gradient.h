#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Computes gradient^T x, the gradient of the weight in x weight^T. Returns
/// nothing where the gradient is wanted in a place of its own
/// (kernels::gradient_place): it is then written or added there.
at::Tensor weight_gradient(
    const at::Tensor& weight,
    const at::Tensor& gradient,
    const at::Tensor& x);

} // namespace cairn::nn
