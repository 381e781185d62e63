#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::zero {

/// Sum of the squares of all elements, in fp64; an inf or nan among them shows
/// in the result. The sum does not depend on the number of threads.
double sum_of_squares(const at::Tensor& values);

} // namespace cairn::zero
