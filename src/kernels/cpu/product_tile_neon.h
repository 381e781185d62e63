#pragma once

#include "kernels/cpu/product_tile.h"

#include <cstdint>

// The innermost loop of products on Arm.

namespace cairn::kernels::cpu {

inline constexpr std::int64_t tile_rows = 8;
inline constexpr std::int64_t tile_columns = 12;
/// The number of values that the loop reads past the end of its inputs.
inline constexpr std::int64_t tile_reads_ahead = 12;

/// c[8][12] = a[depth][8] x b[depth][12] + start
void multiply_tile(
    std::int64_t depth,
    const float* a,
    const float* b,
    float* c,
    std::int64_t c_step,
    const TileStart& start);

/// Computes only the first 4 * `quarters` columns of the tile; `quarters` is 1
/// or 2.
void multiply_narrow_tile(
    int quarters,
    std::int64_t depth,
    const float* a,
    const float* b,
    float* c,
    std::int64_t c_step,
    const TileStart& start);

} // namespace cairn::kernels::cpu
