#pragma once

#include "kernels/cpu/exp_of.h"
#include "kernels/cpu/product_tile.h"

#include <cstdint>

namespace cairn::kernels::cpu {
namespace { // see scalar.h

/// The innermost loop of products, for product_loops.h. The sums of a tile stay
/// in registers: `rows` times `vectors` of them, beside one row of the right
/// matrix and a value of the left one.
template <class V, int rows_, int vectors>
struct VectorInner {
  static constexpr std::int64_t rows = rows_;
  static constexpr std::int64_t columns = vectors * V::width;
  static constexpr std::int64_t reads_ahead = 0;

  static bool takes(const Tile& tile) {
    return tile.columns == columns || (vectors > 1 && tile.columns == V::width);
  }

  static void multiply(const Tile& tile) {
    tile.columns == columns ? multiply_rows<vectors>(tile)
                            : multiply_rows<1>(tile);
  }

 private:
  /// Rows of zeros below the last are left out by fours.
  template <int wide>
  static void multiply_rows(const Tile& tile) {
    if constexpr (rows > 8) {
      if (tile.rows > 8) {
        return multiply_part<rows_, wide>(tile);
      }
    }
    if constexpr (rows > 4) {
      if (tile.rows > 4) {
        return multiply_part<8, wide>(tile);
      }
    }
    multiply_part<4, wide>(tile);
  }

  template <int high, int wide>
  static void multiply_part(const Tile& tile) {
    V sums[high][wide];
    each_of<high>([&](int i) { // prefetch the result
      __builtin_prefetch(tile.c + i * tile.c_step, 1);
      __builtin_prefetch(tile.c + i * tile.c_step + wide * V::width - 1, 1);
    });
#pragma GCC unroll 48
    for (int k = 0; k < high * wide; ++k) {
      sums[k / wide][k % wide] = V(0.0F);
    }
    const float* a = tile.a;
    const float* b = tile.b;
    for (std::int64_t d = 0; d < tile.depth; ++d) {
      V right[wide];
#pragma GCC unroll 4
      for (int j = 0; j < wide; ++j) {
        right[j] = V::load(b + j * V::width);
      }
#pragma GCC unroll 12
      for (int i = 0; i < high; ++i) {
        const V left(a[i]);
#pragma GCC unroll 4
        for (int j = 0; j < wide; ++j) {
          sums[i][j] = fma(left, right[j], sums[i][j]);
        }
      }
      a += rows;
      b += columns;
    }
    const TileStart& start = tile.start;
    const auto put = [&](int i) {
      each_of<wide>([&](int j) {
        V sum = sums[i][j];
        if (start.data != nullptr) {
          sum = sum + V::load(start.data + i * start.step + j * V::width);
        }
        sum.store(tile.c + i * tile.c_step + j * V::width);
      });
    };
    if (tile.rows == high) { // so that no sum goes through memory
      each_of<high>(put);
    } else {
      each_of<high>([&](int i) {
        if (i < tile.rows) {
          put(i);
        }
      });
    }
  }
};

} // namespace
} // namespace cairn::kernels::cpu
