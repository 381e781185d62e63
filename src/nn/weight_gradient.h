#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// gradient^T x, for the weight of x weight^T: where the weight's gradient is
/// wanted, if somebody has said so.
at::Tensor weight_gradient(
    const at::Tensor& weight,
    const at::Tensor& gradient,
    const at::Tensor& x);

} // namespace cairn::nn
