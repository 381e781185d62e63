#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// The gradient of a parameter that is a vector, from sums over some of the
/// rows each, [parts, columns] in float on a GPU. Returns nothing where the
/// gradient is wanted in a place of its own (kernels::gradient_place): it is
/// then written or added there.
at::Tensor summed_parts(const at::Tensor& parts, const at::Tensor& parameter);

} // namespace cairn::nn
