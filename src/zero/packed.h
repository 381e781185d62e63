#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/zero/wire.h>

namespace cairn::zero {

// Flat numbers of any parameter type, as they travel in blocks: bytes of
// wire_bytes() elements. On the CPU by kernels of our own, elsewhere by
// libtorch's operators, with the same bits.

void pack(const at::Tensor& values, Wire wire, const at::Tensor& packed);
at::Tensor packed_of(const at::Tensor& values, Wire wire);

/// Fills all of `values`.
void unpack(const at::Tensor& packed, Wire wire, const at::Tensor& values);
/// `sums`: fp32.
void add_packed(const at::Tensor& packed, Wire wire, const at::Tensor& sums);

} // namespace cairn::zero
