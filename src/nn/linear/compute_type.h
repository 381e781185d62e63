#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// `x` in the type in which autocast computes products, within autograd; `x`
/// itself where autocast is off. For functions with a backward of their own,
/// which runs without autocast.
at::Tensor in_compute_type(const at::Tensor& x);

} // namespace cairn::nn
