#pragma once

#include <c10/core/ScalarType.h>
#include <cairn/distributed/reduce_op.h>

#include <cstddef>

namespace cairn::distributed {

/// Reduces `elements` values of `count` (two or more) ranks, in the order of
/// the ranks, so that every rank and every run gets the same bits.
/// Floating-point types of less than 32 bits are added up in fp32 and rounded
/// once. `out` may be one of the inputs, but must not overlap them otherwise.
using ReduceKernel = void (*)(
    void* out,
    const void* const* inputs,
    int count,
    std::size_t elements);

/// The kernel for one of the types that wire_dtype() knows.
ReduceKernel reduce_kernel(c10::ScalarType dtype, ReduceOp op);

} // namespace cairn::distributed
