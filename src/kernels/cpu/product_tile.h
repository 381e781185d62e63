#pragma once

#include <cstdint>

// The innermost loop of products: where has_matrix_product.

namespace cairn::kernels::cpu {

inline constexpr std::int64_t tile_rows = 8;
inline constexpr std::int64_t tile_columns = 12;
/// How many values it reads behind the ends of what it is given.
inline constexpr std::int64_t tile_reads_ahead = 12;

/// What is added to a tile: rows `step` apart, all the same one if that is 0.
struct TileStart {
  const float* data = nullptr; ///< none: nothing
  std::int64_t step = 0;
};

/// c[8][12] = a[depth][8] x b[depth][12] + start
void multiply_tile(
    std::int64_t depth,
    const float* a,
    const float* b,
    float* c,
    std::int64_t c_step,
    const TileStart& start);

/// Only the first 4 * `quarters` columns of such a tile; one or two.
void multiply_narrow_tile(
    int quarters,
    std::int64_t depth,
    const float* a,
    const float* b,
    float* c,
    std::int64_t c_step,
    const TileStart& start);

} // namespace cairn::kernels::cpu
