#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// The sum of a matrix's rows. That of 16-bit rows on a GPU is in float.
at::Tensor column_sums(const at::Tensor& matrix);

/// The sum of a gradient's rows as the gradient of a bias. Returns nothing
/// where it was written to a place of its own (kernels::gradient_place).
at::Tensor bias_gradient(const at::Tensor& bias, const at::Tensor& gradient);

} // namespace cairn::nn
