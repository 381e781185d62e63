#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// x times the transposed weight, plus the bias if it is defined, with
/// autograd.
///
/// Also computes many such layers of one shape: [count, rows, in] by weights
/// [count, out, in] and biases [count, out].
at::Tensor linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias);

} // namespace cairn::nn
