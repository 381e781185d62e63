#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/optim/rule.h>

namespace cairn::zero {

/// The place where kernels on this tensor run: the CPU, or its GPU's current
/// stream.
optim::Place place_of(const at::Tensor& tensor);

} // namespace cairn::zero
