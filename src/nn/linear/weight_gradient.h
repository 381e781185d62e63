#pragma once

#include "nn/internal/deferred_gradients.h"

#include <ATen/core/Tensor.h>

#include <memory>

namespace cairn::nn {

/// Computes gradient^T x, the gradient of the weight in x weight^T. Returns
/// nothing where the gradient is wanted in a place of its own
/// (kernels::gradient_place): it is then written or added there.
at::Tensor weight_gradient(
    const at::Tensor& weight,
    const at::Tensor& gradient,
    const at::Tensor& x);

/// weight_gradient() now or, where `later` is set and takes the weight, then.
at::Tensor weight_gradient_or_later(
    const std::shared_ptr<DeferredGradients>& later,
    const at::Tensor& weight,
    const at::Tensor& gradient,
    const at::Tensor& x);

} // namespace cairn::nn
