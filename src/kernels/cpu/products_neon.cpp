#include "kernels/cpu/neon.h"
#include "kernels/cpu/product_functions.h"
#include "kernels/cpu/product_tile_neon.h"

namespace cairn::kernels::cpu {
namespace {

/// The loop in assembly of product_tile_neon.cpp.
struct Inner {
  static constexpr std::int64_t rows = tile_rows;
  static constexpr std::int64_t columns = tile_columns;
  static constexpr std::int64_t reads_ahead = tile_reads_ahead;
  static constexpr std::int64_t block_rows = 128;
  static constexpr std::int64_t block_columns = 768;
  static constexpr std::int64_t block_depth = 512;

  static bool takes(const Tile& tile) {
    return tile.rows == rows && tile.columns % 4 == 0;
  }

  static void multiply(const Tile& tile) {
    if (tile.columns == columns) {
      multiply_tile(
          tile.depth,
          tile.a,
          tile.b,
          tile.c,
          tile.c_step,
          tile.start);
    } else {
      multiply_narrow_tile(
          static_cast<int>(tile.columns / 4),
          tile.depth,
          tile.a,
          tile.b,
          tile.c,
          tile.c_step,
          tile.start);
    }
  }
};

} // namespace

const ProductTable neon_products = products_for<Neon<false>, Inner>("neon");

} // namespace cairn::kernels::cpu
