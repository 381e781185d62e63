#pragma once

#include "zero/reduce/wire.h"

#include <ATen/core/Tensor.h>

namespace cairn::zero {

// Convert flat numbers of any parameter type to and from the blocks in which
// they travel: wire_bytes() bytes. On the CPU they use kernels of our own,
// elsewhere libtorch's operators, with the same bits.

void pack(const at::Tensor& values, Wire wire, const at::Tensor& packed);
at::Tensor packed_of(const at::Tensor& values, Wire wire);

/// Fills all of `values`.
void unpack(const at::Tensor& packed, Wire wire, const at::Tensor& values);
/// Adds the numbers to `sums`, which are fp32.
void add_packed(const at::Tensor& packed, Wire wire, const at::Tensor& sums);

} // namespace cairn::zero
