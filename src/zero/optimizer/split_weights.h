#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::zero {

// fp32 weights as bf16 parameters and 16-bit remainders, by libtorch's
// operators; kernels/narrow_states.h says how.

/// The weights of which these are the halves.
at::Tensor joined_weights(
    const at::Tensor& parameters,
    const at::Tensor& remainders);

/// Clears the remainders that cannot be of these parameters, because somebody
/// else has changed the parameters. Another change leaves a remainder that is
/// below half of bf16's last digit.
void clear_foreign_remainders(
    const at::Tensor& parameters,
    const at::Tensor& remainders);

/// Writes the halves of fp32 weights.
void split_weights(
    const at::Tensor& weights,
    const at::Tensor& parameters,
    const at::Tensor& remainders);

} // namespace cairn::zero
