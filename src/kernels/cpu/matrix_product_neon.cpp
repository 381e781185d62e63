#include "kernels/cpu/matrix_product.h"

#include <arm_neon.h>

#include <algorithm>
#include <memory>

// Goto's way: blocks of both matrices are copied into the order in which the
// innermost loop reads them, so large that the copies pay and so small that
// they stay in the caches. The innermost loop keeps a tile of 8 x 12 results in
// registers; it is written in assembly because compilers spill some of them.

namespace cairn::kernels::cpu {
namespace {

constexpr std::int64_t tile_rows = 8;
constexpr std::int64_t tile_columns = 12;
constexpr std::int64_t block_rows = 128;
constexpr std::int64_t block_columns = 768;
constexpr std::int64_t block_depth = 384;

// One step along the depth: 8 values of the left matrix in v24, v25 times 12 of
// the right one in v26, v27, v28.
#define CAIRN_ROW(C0, C1, C2, A, LANE)               \
  "fmla v" #C0 ".4s, v26.4s, v" #A ".s[" #LANE "]\n" \
  "fmla v" #C1 ".4s, v27.4s, v" #A ".s[" #LANE "]\n" \
  "fmla v" #C2 ".4s, v28.4s, v" #A ".s[" #LANE "]\n"
#define CAIRN_STEP             \
  CAIRN_ROW(0, 1, 2, 24, 0)    \
  CAIRN_ROW(3, 4, 5, 24, 1)    \
  CAIRN_ROW(6, 7, 8, 24, 2)    \
  CAIRN_ROW(9, 10, 11, 24, 3)  \
  CAIRN_ROW(12, 13, 14, 25, 0) \
  CAIRN_ROW(15, 16, 17, 25, 1) \
  CAIRN_ROW(18, 19, 20, 25, 2) \
  CAIRN_ROW(21, 22, 23, 25, 3)
#define CAIRN_ZERO(C0, C1, C2) \
  "movi v" #C0 ".4s, #0\n"     \
  "movi v" #C1 ".4s, #0\n"     \
  "movi v" #C2 ".4s, #0\n"
#define CAIRN_ADD(C0, C1, C2)               \
  "ldp q24, q25, [x17]\n"                   \
  "ldr q26, [x17, #32]\n"                   \
  "add x17, x17, %[step]\n"                 \
  "fadd v" #C0 ".4s, v" #C0 ".4s, v24.4s\n" \
  "fadd v" #C1 ".4s, v" #C1 ".4s, v25.4s\n" \
  "fadd v" #C2 ".4s, v" #C2 ".4s, v26.4s\n"
#define CAIRN_STORE(C0, C1, C2)      \
  "stp q" #C0 ", q" #C1 ", [%[c]]\n" \
  "str q" #C2 ", [%[c], #32]\n"      \
  "add %[c], %[c], %[step]\n"
#define CAIRN_ALL_ROWS(DO) \
  DO(0, 1, 2)              \
  DO(3, 4, 5)              \
  DO(6, 7, 8)              \
  DO(9, 10, 11)            \
  DO(12, 13, 14)           \
  DO(15, 16, 17)           \
  DO(18, 19, 20)           \
  DO(21, 22, 23)

/// c[8][12] = a[depth][8] x b[depth][12], or is increased by it.
void multiply_tile(
    std::int64_t depth,
    const float* a,
    const float* b,
    float* c,
    std::int64_t c_step,
    bool add) {
  std::int64_t quads = depth / 4;
  std::int64_t rest = depth % 4;
  asm volatile(CAIRN_ALL_ROWS(CAIRN_ZERO) //
               "cbz %[quads], 2f\n"
               "1:\n"
               "ldp q24, q25, [%[a]]\n"
               "ldp q26, q27, [%[b]]\n"
               "ldr q28, [%[b], #32]\n" //
               CAIRN_STEP               //
               "ldp q24, q25, [%[a], #32]\n"
               "ldp q26, q27, [%[b], #48]\n"
               "ldr q28, [%[b], #80]\n" //
               CAIRN_STEP               //
               "ldp q24, q25, [%[a], #64]\n"
               "ldp q26, q27, [%[b], #96]\n"
               "ldr q28, [%[b], #128]\n" //
               CAIRN_STEP                //
               "ldp q24, q25, [%[a], #96]\n"
               "ldp q26, q27, [%[b], #144]\n"
               "ldr q28, [%[b], #176]\n"
               "add %[a], %[a], #128\n"
               "add %[b], %[b], #192\n" //
               CAIRN_STEP               //
               "subs %[quads], %[quads], #1\n"
               "bgt 1b\n"
               "2:\n"
               "cbz %[rest], 4f\n"
               "3:\n"
               "ldp q24, q25, [%[a]], #32\n"
               "ldp q26, q27, [%[b]], #32\n"
               "ldr q28, [%[b]], #16\n" //
               CAIRN_STEP               //
               "subs %[rest], %[rest], #1\n"
               "bgt 3b\n"
               "4:\n"
               "cbz %w[add], 5f\n"
               "mov x17, %[c]\n"         //
               CAIRN_ALL_ROWS(CAIRN_ADD) //
               "5:\n"                    //
               CAIRN_ALL_ROWS(CAIRN_STORE)
               : [quads] "+r"(quads),
                 [rest] "+r"(rest),
                 [a] "+r"(a),
                 [b] "+r"(b),
                 [c] "+r"(c)
               : [step] "r"(c_step * 4), [add] "r"(static_cast<int>(add))
               : "memory",
                 "cc",
                 "x17",
                 "v0",
                 "v1",
                 "v2",
                 "v3",
                 "v4",
                 "v5",
                 "v6",
                 "v7",
                 "v8",
                 "v9",
                 "v10",
                 "v11",
                 "v12",
                 "v13",
                 "v14",
                 "v15",
                 "v16",
                 "v17",
                 "v18",
                 "v19",
                 "v20",
                 "v21",
                 "v22",
                 "v23",
                 "v24",
                 "v25",
                 "v26",
                 "v27",
                 "v28");
}

#undef CAIRN_ROW
#undef CAIRN_STEP
#undef CAIRN_ZERO
#undef CAIRN_ADD
#undef CAIRN_STORE
#undef CAIRN_ALL_ROWS

/// Four vectors of four become their transpose.
void store_transposed(
    const float* from,
    std::int64_t step,
    float* to,
    int gap) {
  const float32x4_t r0 = vld1q_f32(from);
  const float32x4_t r1 = vld1q_f32(from + step);
  const float32x4_t r2 = vld1q_f32(from + 2 * step);
  const float32x4_t r3 = vld1q_f32(from + 3 * step);
  const auto even = [](float32x4_t a, float32x4_t b) {
    return vreinterpretq_f64_f32(vtrn1q_f32(a, b));
  };
  const auto odd = [](float32x4_t a, float32x4_t b) {
    return vreinterpretq_f64_f32(vtrn2q_f32(a, b));
  };
  const auto store = [&](int row, float64x2_t x) {
    vst1q_f32(to + row * gap, vreinterpretq_f32_f64(x));
  };
  store(0, vtrn1q_f64(even(r0, r1), even(r2, r3)));
  store(1, vtrn1q_f64(odd(r0, r1), odd(r2, r3)));
  store(2, vtrn2q_f64(even(r0, r1), even(r2, r3)));
  store(3, vtrn2q_f64(odd(r0, r1), odd(r2, r3)));
}

/// Copies `lines` of `depth` values each into panels of `width` lines, in which
/// those of one depth lie together; lines that are missing are zero.
template <int width>
void pack(
    const float* from,
    std::int64_t line_step,
    std::int64_t depth_step,
    std::int64_t lines,
    std::int64_t depth,
    float* to) {
  for (std::int64_t line = 0; line < lines;
       line += width, to += width * depth) {
    const float* first = from + line * line_step;
    const std::int64_t there = std::min<std::int64_t>(width, lines - line);
    std::int64_t d = 0;
    if (there == width && line_step == 1) {
      for (; d < depth; ++d) {
        for (int i = 0; i < width; i += 4) {
          vst1q_f32(to + d * width + i, vld1q_f32(first + d * depth_step + i));
        }
      }
    } else if (there == width && depth_step == 1) {
      for (; d + 4 <= depth; d += 4) {
        for (int i = 0; i < width; i += 4) {
          store_transposed(
              first + i * line_step + d,
              line_step,
              to + d * width + i,
              width);
        }
      }
    }
    for (; d < depth; ++d) {
      for (std::int64_t i = 0; i < width; ++i) {
        to[d * width + i] =
            i < there ? first[i * line_step + d * depth_step] : 0.0F;
      }
    }
  }
}

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
    for (std::int64_t j = 0; j < columns; ++j) {
      float& at = c[i * c_step + j];
      at = tile[i * tile_columns + j] + (add ? at : 0.0F);
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
  constexpr std::int64_t floats = (block_columns + block_rows) * block_depth;
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
          right.data + d * right.row_step + j * right.column_step,
          right.column_step,
          right.row_step,
          columns,
          depth,
          packed_right);
      for (std::int64_t i = part.first_row; i < last_row; i += block_rows) {
        const std::int64_t rows = std::min(block_rows, last_row - i);
        pack<tile_rows>(
            left.data + i * left.row_step + d * left.column_step,
            left.row_step,
            left.column_step,
            rows,
            depth,
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
