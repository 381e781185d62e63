#pragma once

#include "kernels/internal/packed_blocks.h"

#include <cairn/kernels/stretch.h>

#include <cstddef>
#include <cstdint>

namespace cairn::kernels::cpu {

// These functions handle blocks [begin, end) of a plan on the calling thread.
// `packed` has plan.bytes() bytes and the alignment of a float.

void pack_blocks(
    const PackedBlocks& plan,
    const void* from,
    Element element,
    std::byte* packed,
    std::int64_t begin,
    std::int64_t end);

void unpack_blocks(
    const PackedBlocks& plan,
    const std::byte* packed,
    void* to,
    Element element,
    std::int64_t begin,
    std::int64_t end);

/// into += the numbers that unpack_blocks() would give.
void add_blocks(
    const PackedBlocks& plan,
    const std::byte* packed,
    float* into,
    std::int64_t begin,
    std::int64_t end);

} // namespace cairn::kernels::cpu
