#include "zero/optimizer/split_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

namespace cairn::zero {

at::Tensor joined_weights(
    const at::Tensor& parameters,
    const at::Tensor& remainders) {
  // A remainder is below zero just where its upper half was rounded up.
  const at::Tensor upper = parameters.view(at::kShort).to(at::kInt);
  return (at::bitwise_left_shift(upper, 16) + remainders.to(at::kInt))
      .view(at::kFloat);
}

void split_weights(
    const at::Tensor& weights,
    const at::Tensor& parameters,
    const at::Tensor& remainders) {
  constexpr int quiet_nan = 0x7fc00000;
  const at::Tensor bits = at::where(
      weights.isnan(),
      at::scalar_tensor(quiet_nan, remainders.options().dtype(at::kInt)),
      weights.view(at::kInt));
  const at::Tensor upper = at::bitwise_right_shift(bits + 0x8000, 16);
  parameters.view(at::kShort).copy_(upper);
  remainders.copy_(bits);
}

} // namespace cairn::zero
