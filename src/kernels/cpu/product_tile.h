#pragma once

#include <cstdint>

// The innermost loop of products: where has_matrix_product.

namespace cairn::kernels::cpu {

inline constexpr std::int64_t tile_rows = 8;
inline constexpr std::int64_t tile_columns = 12;
/// How many values it reads behind the ends of what it is given.
inline constexpr std::int64_t tile_reads_ahead = 12;

/// c[8][12] = a[depth][8] x b[depth][12], or is increased by it.
void multiply_tile(
    std::int64_t depth,
    const float* a,
    const float* b,
    float* c,
    std::int64_t c_step,
    bool add);

} // namespace cairn::kernels::cpu
