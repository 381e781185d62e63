#include "kernels/cpu/matrix_product.h"

#include "kernels/cpu/product_panels_neon.h"
#include "kernels/cpu/product_tile.h"

#include <algorithm>
#include <memory>

// Goto's way: blocks of both matrices are copied into the order in which the
// innermost loop reads them, so large that the copies pay and so small that
// they stay in the caches.

namespace cairn::kernels::cpu {
namespace {

constexpr std::int64_t block_rows = 128;
constexpr std::int64_t block_columns = 768;
constexpr std::int64_t block_depth = 384;

/// A tile that the result's edge cuts.
void multiply_edge(
    std::int64_t depth,
    const float* a,
    const float* b,
    float* c,
    std::int64_t c_step,
    std::int64_t rows,
    std::int64_t columns,
    bool add) {
  float tile[tile_rows * tile_columns];
  multiply_tile(depth, a, b, tile, tile_columns, false);
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* const from = tile + i * tile_columns;
    float* const to = c + i * c_step;
    std::int64_t j = 0;
    for (; j + 4 <= columns; j += 4) {
      const float32x4_t x = vld1q_f32(from + j);
      vst1q_f32(to + j, add ? vaddq_f32(vld1q_f32(to + j), x) : x);
    }
    for (; j < columns; ++j) {
      to[j] = from[j] + (add ? to[j] : 0.0F);
    }
  }
}

void fill_with_bias(
    const float* bias,
    float* c,
    std::int64_t c_step,
    std::int64_t rows,
    std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(bias, columns, c + i * c_step);
  }
}

/// Each thread keeps its copies of blocks from one product to the next: taking
/// new memory each time costs as much as a small product.
float* packed_blocks() {
  constexpr std::int64_t floats =
      (block_columns + block_rows) * block_depth + tile_reads_ahead;
  thread_local const auto blocks =
      std::make_unique_for_overwrite<float[]>(floats);
  return blocks.get();
}

static_assert(block_rows % tile_rows == 0);
static_assert(block_columns % tile_columns == 0);

} // namespace

ProductPart product_part(
    const ProductShape& shape,
    std::int64_t index,
    std::int64_t count) {
  // As many columns of parts as make the longer side of a part shortest.
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
    const ProductResult& result) {
  float* const packed_right = packed_blocks();
  float* const packed_left = packed_right + block_columns * block_depth;
  const std::int64_t last_column = part.first_column + part.columns;
  const std::int64_t last_row = part.first_row + part.rows;
  for (std::int64_t j = part.first_column; j < last_column;
       j += block_columns) {
    const std::int64_t columns = std::min(block_columns, last_column - j);
    for (std::int64_t d = 0; d < shape.depth; d += block_depth) {
      const std::int64_t depth = std::min(block_depth, shape.depth - d);
      const bool starts_from_bias = d == 0 && result.bias != nullptr;
      const bool add = d > 0 || result.add || starts_from_bias;
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
            const float* const a = packed_left + ii * depth;
            const float* const b = packed_right + jj * depth;
            float* const c = result.data + (i + ii) * result.row_step + j + jj;
            const std::int64_t tall = std::min(tile_rows, rows - ii);
            const std::int64_t wide = std::min(tile_columns, columns - jj);
            const std::int64_t step = result.row_step;
            if (starts_from_bias) {
              fill_with_bias(result.bias + j + jj, c, step, tall, wide);
            }
            if (tall == tile_rows && wide == tile_columns) {
              multiply_tile(depth, a, b, c, step, add);
            } else {
              multiply_edge(depth, a, b, c, step, tall, wide, add);
            }
          }
        }
      }
    }
  }
  // Nothing to multiply: what the results start from is all there is.
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
