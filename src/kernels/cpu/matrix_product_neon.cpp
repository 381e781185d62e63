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
constexpr std::int64_t floats_in_line = 16; ///< of the cache
constexpr std::int64_t soon = 8;   ///< rows from here: there when we are
constexpr std::int64_t ahead = 12; ///< what the innermost loop reads too far

// One step along the depth: 8 values of the left matrix, in A0 and A1, times 12
// of the right one in v26, v27, v28. Whatever the next step needs is loaded as
// soon as its register is free, long before it is used: the left values into
// the other pair of registers, the right ones where the old ones were.
#define CAIRN_COLUMN(B, A0, A1, C0, C1, C2, C3, C4, C5, C6, C7) \
  "fmla v" #C0 ".4s, v" #B ".4s, v" #A0 ".s[0]\n"               \
  "fmla v" #C1 ".4s, v" #B ".4s, v" #A0 ".s[1]\n"               \
  "fmla v" #C2 ".4s, v" #B ".4s, v" #A0 ".s[2]\n"               \
  "fmla v" #C3 ".4s, v" #B ".4s, v" #A0 ".s[3]\n"               \
  "fmla v" #C4 ".4s, v" #B ".4s, v" #A1 ".s[0]\n"               \
  "fmla v" #C5 ".4s, v" #B ".4s, v" #A1 ".s[1]\n"               \
  "fmla v" #C6 ".4s, v" #B ".4s, v" #A1 ".s[2]\n"               \
  "fmla v" #C7 ".4s, v" #B ".4s, v" #A1 ".s[3]\n"
#define CAIRN_STEP(A0, A1, NEXT0, NEXT1, A_AT, B_AT0, B_AT1, B_AT2)  \
  "ldr q" #NEXT0 ", [%[a], #" #A_AT "]\n" CAIRN_COLUMN(              \
      26,                                                            \
      A0,                                                            \
      A1,                                                            \
      0,                                                             \
      3,                                                             \
      6,                                                             \
      9,                                                             \
      12,                                                            \
      15,                                                            \
      18,                                                            \
      21) "ldr q26, [%[b], #" #B_AT0 "]\n"                           \
          "ldr q" #NEXT1 ", [%[a], #" #A_AT " + 16]\n" CAIRN_COLUMN( \
              27,                                                    \
              A0,                                                    \
              A1,                                                    \
              1,                                                     \
              4,                                                     \
              7,                                                     \
              10,                                                    \
              13,                                                    \
              16,                                                    \
              19,                                                    \
              22) "ldr q27, [%[b], #" #B_AT1                         \
                  "]\n" CAIRN_COLUMN(                                \
                      28,                                            \
                      A0,                                            \
                      A1,                                            \
                      2,                                             \
                      5,                                             \
                      8,                                             \
                      11,                                            \
                      14,                                            \
                      17,                                            \
                      20,                                            \
                      23) "ldr q28, [%[b], #" #B_AT2 "]\n"
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

/// c[8][12] = a[depth][8] x b[depth][12], or is increased by it. Reads `ahead`
/// values behind the ends of both.
void multiply_tile(
    std::int64_t depth,
    const float* a,
    const float* b,
    float* c,
    std::int64_t c_step,
    bool add) {
  std::int64_t quads = depth / 4;
  std::int64_t rest = depth % 4;
  for (std::int64_t i = 0; i < tile_rows; ++i) { // there when it is wanted
    __builtin_prefetch(c + i * c_step, 1);
    __builtin_prefetch(c + i * c_step + tile_columns - 1, 1);
  }
  asm volatile("ldp q24, q25, [%[a]]\n"
               "ldp q26, q27, [%[b]]\n"
               "ldr q28, [%[b], #32]\n"   //
               CAIRN_ALL_ROWS(CAIRN_ZERO) //
               "cbz %[quads], 2f\n"
               "1:\n"                                         //
               CAIRN_STEP(24, 25, 29, 30, 32, 48, 64, 80)     //
               CAIRN_STEP(29, 30, 24, 25, 64, 96, 112, 128)   //
               CAIRN_STEP(24, 25, 29, 30, 96, 144, 160, 176)  //
               CAIRN_STEP(29, 30, 24, 25, 128, 192, 208, 224) //
               "add %[a], %[a], #128\n"
               "add %[b], %[b], #192\n"
               "subs %[quads], %[quads], #1\n"
               "bgt 1b\n"
               "2:\n"
               "cbz %[rest], 4f\n"
               "3:\n"                                     //
               CAIRN_STEP(24, 25, 29, 30, 32, 48, 64, 80) //
               "mov v24.16b, v29.16b\n"
               "mov v25.16b, v30.16b\n"
               "add %[a], %[a], #32\n"
               "add %[b], %[b], #48\n"
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
                 "v28",
                 "v29",
                 "v30");
}

#undef CAIRN_COLUMN
#undef CAIRN_STEP
#undef CAIRN_ZERO
#undef CAIRN_ADD
#undef CAIRN_STORE
#undef CAIRN_ALL_ROWS

/// Four vectors of four become their transpose, `gap` apart.
template <int gap>
[[gnu::always_inline]] inline void store_transposed(
    const float* from,
    std::int64_t step,
    float* to) {
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

/// Some of a matrix' lines (rows of the left, columns of the right one).
struct Lines {
  const float* first = nullptr;
  std::int64_t line_step = 0;
  std::int64_t depth_step = 0;
  std::int64_t count = 0;
  std::int64_t depth = 0;

  const float* at(std::int64_t line, std::int64_t d) const {
    return first + line * line_step + d * depth_step;
  }
};

/// Four lines of a panel of `width`, of which fewer may be there: the others
/// are zero.
template <int width>
void pack_four(const Lines& lines, std::int64_t line, float* to) {
  const std::int64_t there = std::clamp<std::int64_t>(lines.count - line, 0, 4);
  std::int64_t d = 0;
  if (there == 4 && lines.depth_step == 1) {
    const bool more = line + width + 4 <= lines.count;
    for (; d + 4 <= lines.depth; d += 4) {
      if (more && d % floats_in_line == 0) {
        for (int i = 0; i < 4; ++i) {
          __builtin_prefetch(lines.at(line + width + i, d));
        }
      }
      store_transposed<width>(
          lines.at(line, d),
          lines.line_step,
          to + d * width);
    }
  } else if (there == 4 && lines.line_step == 1) {
    for (; d < lines.depth; ++d) {
      vst1q_f32(to + d * width, vld1q_f32(lines.at(line, d)));
    }
  } else if (there == 0) {
    for (; d < lines.depth; ++d) {
      vst1q_f32(to + d * width, vdupq_n_f32(0));
    }
  }
  for (; d < lines.depth; ++d) {
    for (std::int64_t i = 0; i < 4; ++i) {
      to[d * width + i] = i < there ? *lines.at(line + i, d) : 0.0F;
    }
  }
}

/// Whole panels of lines that lie beside each other, some at a time: so that
/// the matrix is read in its own order.
template <int width>
void pack_side_by_side(const Lines& lines, std::int64_t panels, float* to) {
  constexpr std::int64_t at_a_time = 8;
  for (std::int64_t first = 0; first < panels; first += at_a_time) {
    const std::int64_t some = std::min(at_a_time, panels - first);
    for (std::int64_t d = 0; d < lines.depth; ++d) {
      const float* from = lines.at(first * width, d);
      float* panel = to + (first * lines.depth + d) * width;
      if (d + soon < lines.depth) {
        for (std::int64_t i = 0; i < some * width; i += floats_in_line) {
          __builtin_prefetch(from + soon * lines.depth_step + i);
        }
      }
      for (std::int64_t i = 0; i < some; ++i) {
#pragma GCC unroll 3
        for (int part = 0; part < width; part += 4) {
          vst1q_f32(panel + part, vld1q_f32(from + part));
        }
        from += width;
        panel += width * lines.depth;
      }
    }
  }
}

/// Copies lines into panels of `width`, in which the values of one depth lie
/// together; lines that are missing are zero.
template <int width>
void pack(const Lines& lines, float* to) {
  std::int64_t line = 0;
  if (lines.line_step == 1) {
    const std::int64_t whole = lines.count / width;
    pack_side_by_side<width>(lines, whole, to);
    line = whole * width;
  }
  for (; line < lines.count; line += width) {
    for (int part = 0; part < width; part += 4) {
      pack_four<width>(lines, line + part, to + line * lines.depth + part);
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
      (block_columns + block_rows) * block_depth + ahead;
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
