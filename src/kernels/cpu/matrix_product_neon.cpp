#include "kernels/cpu/product_panels_neon.h"
#include "kernels/cpu/product_tile.h"
#include "kernels/internal/cpu/matrix_product.h"

#include <algorithm>
#include <memory>

// Goto's algorithm: blocks of both matrices are copied into the order in which
// the innermost loop reads them. The blocks are large enough for the copies to
// pay off and small enough to stay in the caches.

namespace cairn::kernels::cpu {
namespace {

constexpr std::int64_t block_rows = 128;
constexpr std::int64_t block_columns = 768;
constexpr std::int64_t block_depth = 512;

/// The inputs and the output of one tile.
struct Tile {
  const float* a = nullptr;
  const float* b = nullptr;
  std::int64_t depth = 0;
  float* c = nullptr;
  std::int64_t c_step = 0;
  std::int64_t rows = tile_rows;
  std::int64_t columns = tile_columns;
  TileStart start;
};

/// Computes a tile that the edge of the result cuts anywhere.
void multiply_cut(const Tile& tile) {
  float whole[tile_rows * tile_columns];
  multiply_tile(tile.depth, tile.a, tile.b, whole, tile_columns, {});
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    const float* const from = whole + i * tile_columns;
    const float* const more = tile.start.data + i * tile.start.step;
    float* const to = tile.c + i * tile.c_step;
    for (std::int64_t j = 0; j < tile.columns; ++j) {
      to[j] = from[j] + (tile.start.data != nullptr ? more[j] : 0.0F);
    }
  }
}

void multiply(const Tile& tile) {
  if (tile.rows != tile_rows || tile.columns % 4 != 0) {
    multiply_cut(tile);
  } else if (tile.columns == tile_columns) {
    multiply_tile(tile.depth, tile.a, tile.b, tile.c, tile.c_step, tile.start);
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

/// The range along the depth where the left matrix is not all zero, for a tile
/// whose rows begin at `row`.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Stretch not_zero(
    const Causal& causal,
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

bool is_wanted(const Causal& causal, std::int64_t row, std::int64_t column) {
  return causal.part != Causal::Part::scores ||
      column < causal.first + row + tile_rows;
}

/// Memory for packed blocks, which each thread keeps from one product to the
/// next: allocating it each time costs as much as a small product.
float* packed_blocks() {
  constexpr std::int64_t floats =
      (block_columns + block_rows) * block_depth + tile_reads_ahead;
  thread_local const auto blocks =
      std::make_unique_for_overwrite<float[]>(floats);
  return blocks.get();
}

/// The size of a part when `whole` is cut into as few equal parts of at most
/// `most` as possible.
std::int64_t equal_part(std::int64_t whole, std::int64_t most) {
  const std::int64_t parts = (whole + most - 1) / most;
  return parts == 0 ? most : (whole + parts - 1) / parts;
}

static_assert(block_rows % tile_rows == 0);
static_assert(block_columns % tile_columns == 0);

} // namespace

ProductPart product_part(
    const ProductShape& shape,
    std::int64_t index,
    std::int64_t count) {
  // Chooses the number of parts across that makes the longer side of a part
  // shortest.
  std::int64_t across = 1;
  const auto longest = [&](std::int64_t n) {
    return std::max(shape.columns / n, shape.rows / (count / n));
  };
  for (std::int64_t n = 2; n <= count; ++n) {
    if (count % n == 0 && longest(n) < longest(across)) {
      across = n;
    }
  }
  const auto cut =
      [](std::int64_t size, std::int64_t tile, std::int64_t i, std::int64_t n) {
        const std::int64_t tiles = (size + tile - 1) / tile;
        return std::min(size, tiles * i / n * tile);
      };
  const std::int64_t i = index / across;
  const std::int64_t down = count / across;
  const std::int64_t j = index % across;
  ProductPart part;
  part.first_row = cut(shape.rows, tile_rows, i, down);
  part.rows = cut(shape.rows, tile_rows, i + 1, down) - part.first_row;
  part.first_column = cut(shape.columns, tile_columns, j, across);
  part.columns =
      cut(shape.columns, tile_columns, j + 1, across) - part.first_column;
  return part;
}

void multiply(
    const ProductShape& shape,
    const ProductPart& part,
    const Matrix& left,
    const Matrix& right,
    const ProductResult& result,
    const Causal& causal) {
  float* const packed_right = packed_blocks();
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
            if (!is_wanted(causal, i + ii, j + jj)) {
              continue;
            }
            const Stretch along = not_zero(causal, i + ii, d, depth);
            float* const c = result.data + (i + ii) * result.row_step + j + jj;
            const float* const bias =
                result.bias == nullptr ? nullptr : result.bias + j + jj;
            multiply(Tile{
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

} // namespace cairn::kernels::cpu
