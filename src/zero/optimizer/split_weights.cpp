#include "zero/optimizer/split_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

namespace cairn::zero {

namespace {

/// The upper halves of weights, as bf16 rounds them.
at::Tensor upper_halves(const at::Tensor& bits) {
  return at::bitwise_right_shift(bits + 0x8000, 16).to(at::kShort);
}

} // namespace

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
  parameters.view(at::kShort).copy_(upper_halves(bits));
  remainders.copy_(bits);
}

void clear_foreign_remainders(
    const at::Tensor& parameters,
    const at::Tensor& remainders) {
  const at::Tensor weights = joined_weights(parameters, remainders);
  const at::Tensor fits =
      upper_halves(weights.view(at::kInt)).eq(parameters.view(at::kShort));
  remainders.masked_fill_(
      weights.isfinite().logical_and(fits).logical_not(),
      0);
}

} // namespace cairn::zero
