#pragma once

#include "kernels/cpu/product_panels.h"
#include "kernels/cpu/product_tile.h"
#include "kernels/internal/cpu/product_table.h"

#include <algorithm>

// Goto's algorithm: blocks of both matrices are copied into the order in which
// the innermost loop reads them. The blocks are large enough for the copies to
// pay off and small enough to stay in the caches.
//
// `Inner` is the innermost loop for one instruction set: the size of its tiles
// (rows, columns), of the blocks (block_rows, block_columns, block_depth), what
// it reads past the end of its inputs (reads_ahead), and multiply(Tile), which
// takes tiles of `rows` rows and of a multiple of `column_step` columns.

namespace cairn::kernels::cpu {
namespace { // see scalar.h

/// Computes a tile that the edge of the result cuts anywhere.
template <class Inner>
void multiply_cut(const Tile& tile) {
  float whole[Inner::rows * Inner::columns];
  Inner::multiply(
      {.a = tile.a,
       .b = tile.b,
       .depth = tile.depth,
       .c = whole,
       .c_step = Inner::columns,
       .rows = tile.rows,
       .columns = Inner::columns});
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    const float* const from = whole + i * Inner::columns;
    const float* const more = tile.start.data + i * tile.start.step;
    float* const to = tile.c + i * tile.c_step;
    for (std::int64_t j = 0; j < tile.columns; ++j) {
      to[j] = from[j] + (tile.start.data != nullptr ? more[j] : 0.0F);
    }
  }
}

template <class Inner>
void multiply_tile(const Tile& tile) {
  if (Inner::takes(tile)) {
    Inner::multiply(tile);
  } else {
    multiply_cut<Inner>(tile);
  }
}

/// The range along the depth where the left matrix is not all zero, for a tile
/// whose rows begin at `row`.
struct DepthRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

inline DepthRange not_zero(
    const Causal& causal,
    std::int64_t tile_rows,
    std::int64_t row,
    std::int64_t first_depth,
    std::int64_t depth) {
  switch (causal.part) {
    case Causal::Part::left:
      return {
          0,
          std::clamp<std::int64_t>(
              causal.first + row + tile_rows - first_depth,
              0,
              depth)};
    case Causal::Part::left_turned:
      return {
          std::clamp<std::int64_t>(row - causal.first - first_depth, 0, depth),
          depth};
    case Causal::Part::none:
    case Causal::Part::scores:
      break;
  }
  return {0, depth};
}

inline bool is_wanted(
    const Causal& causal,
    std::int64_t tile_rows,
    std::int64_t row,
    std::int64_t column) {
  return causal.part != Causal::Part::scores ||
      column < causal.first + row + tile_rows;
}

/// The size of a part when `whole` is cut into as few equal parts of at most
/// `most` as possible.
inline std::int64_t equal_part(std::int64_t whole, std::int64_t most) {
  const std::int64_t parts = (whole + most - 1) / most;
  return parts == 0 ? most : (whole + parts - 1) / parts;
}

template <class Inner>
void multiply_matrices(
    const ProductShape& shape,
    const ProductPart& part,
    const Matrix& left,
    const Matrix& right,
    const ProductResult& result,
    const Causal& causal) {
  constexpr std::int64_t tile_rows = Inner::rows;
  constexpr std::int64_t tile_columns = Inner::columns;
  constexpr std::int64_t block_rows = Inner::block_rows;
  constexpr std::int64_t block_columns = Inner::block_columns;
  constexpr std::int64_t block_depth = Inner::block_depth;
  static_assert(block_rows % tile_rows == 0);
  static_assert(block_columns % tile_columns == 0);
  float* const packed_right = thread_memory(
      ThreadMemory::blocks,
      (block_columns + block_rows) * block_depth + Inner::reads_ahead);
  float* const packed_left = packed_right + block_columns * block_depth;
  const std::int64_t some_depth = equal_part(shape.depth, block_depth);
  const std::int64_t last_column = part.first_column + part.columns;
  const std::int64_t last_row = part.first_row + part.rows;
  for (std::int64_t j = part.first_column; j < last_column;
       j += block_columns) {
    const std::int64_t columns = std::min(block_columns, last_column - j);
    for (std::int64_t d = 0; d < shape.depth; d += some_depth) {
      const std::int64_t depth = std::min(some_depth, shape.depth - d);
      const bool add = d > 0 || result.add;
      pack<tile_columns>(
          {right.data + d * right.row_step + j * right.column_step,
           right.column_step,
           right.row_step,
           columns,
           depth},
          packed_right);
      for (std::int64_t i = part.first_row; i < last_row; i += block_rows) {
        const std::int64_t rows = std::min(block_rows, last_row - i);
        pack<tile_rows>(
            {left.data + i * left.row_step + d * left.column_step,
             left.row_step,
             left.column_step,
             rows,
             depth},
            packed_left);
        for (std::int64_t jj = 0; jj < columns; jj += tile_columns) {
          for (std::int64_t ii = 0; ii < rows; ii += tile_rows) {
            if (!is_wanted(causal, tile_rows, i + ii, j + jj)) {
              continue;
            }
            const DepthRange along =
                not_zero(causal, Inner::rows, i + ii, d, depth);
            float* const c = result.data + (i + ii) * result.row_step + j + jj;
            const float* const bias =
                result.bias == nullptr ? nullptr : result.bias + j + jj;
            multiply_tile<Inner>(Tile{
                .a = packed_left + ii * depth + along.begin * tile_rows,
                .b = packed_right + jj * depth + along.begin * tile_columns,
                .depth = along.end - along.begin,
                .c = c,
                .c_step = result.row_step,
                .rows = std::min(tile_rows, rows - ii),
                .columns = std::min(tile_columns, columns - jj),
                .start =
                    add ? TileStart{c, result.row_step} : TileStart{bias, 0}});
          }
        }
      }
    }
  }
  // With depth 0 the result is just its starting values.
  if (shape.depth == 0 && !result.add) {
    for (std::int64_t i = part.first_row; i < last_row; ++i) {
      for (std::int64_t j = part.first_column; j < last_column; ++j) {
        result.data[i * result.row_step + j] =
            result.bias == nullptr ? 0.0F : result.bias[j];
      }
    }
  }
}

} // namespace
} // namespace cairn::kernels::cpu
