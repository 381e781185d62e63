#pragma once

#include "nn/fp8/fp8_matrix.h"
#include "nn/fp8/gpu_fp8_product.h"
#include "nn/internal/deferred_gradients.h"

#include <ATen/core/Tensor.h>

#include <memory>

namespace cairn::nn {

// Products of fp8 matrices: by a GPU's fp8 units where there are any, elsewhere
// by libtorch from the rounded values. Without autograd.

/// Computes left x right transposed, plus what is to be added.
at::Tensor fp8_product(
    const Fp8Factor& left,
    const Fp8Factor& right,
    const Fp8Addends& addends,
    const Fp8Result& result);

/// weight_gradient_or_later() of rounded matrices.
at::Tensor fp8_weight_gradient_or_later(
    const std::shared_ptr<DeferredGradients>& later,
    const at::Tensor& weight,
    const Fp8Matrix& gradient,
    const Fp8Factor& x_columns);

} // namespace cairn::nn
