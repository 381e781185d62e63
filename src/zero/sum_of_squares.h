#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::zero {

/// Of all elements, in fp64; inf or nan among them show in the result. Does not
/// depend on the number of threads.
double sum_of_squares(const at::Tensor& values);

} // namespace cairn::zero
