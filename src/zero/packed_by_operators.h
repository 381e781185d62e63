#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/kernels/packed_blocks.h>

namespace cairn::zero {

// What kernels/cpu/pack_blocks.h does, by libtorch's operators on any device.

at::Tensor packed_by_operators(
    const at::Tensor& values,
    const kernels::PackedBlocks& plan);

/// fp32.
at::Tensor unpacked_by_operators(
    const at::Tensor& packed,
    const kernels::PackedBlocks& plan);

} // namespace cairn::zero
