#pragma once

#include "kernels/internal/packed_blocks.h"

#include <ATen/core/Tensor.h>

namespace cairn::zero {

// The functions of kernels/internal/cpu/pack_blocks.h, with libtorch's
// operators on any device.

at::Tensor packed_by_operators(
    const at::Tensor& values,
    const kernels::PackedBlocks& plan);

/// Returns fp32 numbers.
at::Tensor unpacked_by_operators(
    const at::Tensor& packed,
    const kernels::PackedBlocks& plan);

} // namespace cairn::zero
