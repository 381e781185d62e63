#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Many linear layers of one shape: of [count, rows, in], by weights of [count,
/// out, in] and biases of [count, out], which may be undefined. The gradient of
/// the weights has their order in memory, and is written where it is wanted.
at::Tensor batch_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias);

} // namespace cairn::nn
