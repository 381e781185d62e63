#pragma once

#include "kernels/internal/cuda/sum_of_squares.h"
#include "zero/internal/device_table.h"

#include <ATen/core/Tensor.h>

namespace cairn::zero {

/// Sum of the squares of all elements of all tensors, in fp64; an inf or nan
/// among them shows in the result. The sum does not depend on the number of
/// threads. The host waits for a GPU once, however many tensors there are.
double sum_of_squares(at::TensorList values);

/// Sum of the squares of all elements of all tensors, as sum_of_squares() has
/// it, in a tensor with one element on `device`. The host waits only for
/// tensors on another device.
at::Tensor sum_of_squares_on(at::Device device, at::TensorList values);

/// sum_of_squares_on() for the same tensors again and again. Where they are on
/// a GPU it takes two launches, however many there are, and can be recorded.
class SumOfSquares {
 public:
  at::Tensor operator()(at::Device device, at::TensorList values);

 private:
  DeviceTable<kernels::cuda::SquaredRow> table_;
  at::Tensor parts_;
};

} // namespace cairn::zero
