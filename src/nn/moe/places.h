#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cairn::nn {

// Choices of experts, [choices]: their number for each expert, and the place of
// each among those of its expert. The host waits for nothing.

/// Number of choices of each of `experts`.
at::Tensor counts_of(const at::Tensor& chosen, std::int64_t experts);

/// The number of choices before each one that are of the same expert. `counts`
/// are those of counts_of().
at::Tensor places_of(const at::Tensor& chosen, const at::Tensor& counts);

/// The number of choices of the same expert that have a larger number, or an
/// equal one and come before it.
at::Tensor ranks_of(
    const at::Tensor& numbers,
    const at::Tensor& chosen,
    const at::Tensor& counts);

} // namespace cairn::nn
