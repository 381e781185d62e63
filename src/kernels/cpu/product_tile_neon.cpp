#include "kernels/cpu/product_tile_neon.h"

#include <arm_neon.h>

// The 8 x 12 results stay in registers. This is assembly because compilers
// spill some of them.

namespace cairn::kernels::cpu {

// clang-format off
// One step along the depth: 8 values of the left matrix, in A0 and A1, times 12
// of the right matrix, in v26, v27, v28. Values for the next step are loaded as
// soon as their register is free, long before they are used: the left values
// into the other pair of registers, the right values over the old ones.
#define CAIRN_COLUMN(B, A0, A1, C0, C1, C2, C3, C4, C5, C6, C7) \
  "fmla v" #C0 ".4s, v" #B ".4s, v" #A0 ".s[0]\n"               \
  "fmla v" #C1 ".4s, v" #B ".4s, v" #A0 ".s[1]\n"               \
  "fmla v" #C2 ".4s, v" #B ".4s, v" #A0 ".s[2]\n"               \
  "fmla v" #C3 ".4s, v" #B ".4s, v" #A0 ".s[3]\n"               \
  "fmla v" #C4 ".4s, v" #B ".4s, v" #A1 ".s[0]\n"               \
  "fmla v" #C5 ".4s, v" #B ".4s, v" #A1 ".s[1]\n"               \
  "fmla v" #C6 ".4s, v" #B ".4s, v" #A1 ".s[2]\n"               \
  "fmla v" #C7 ".4s, v" #B ".4s, v" #A1 ".s[3]\n"
#define CAIRN_COLUMN0(A0, A1) CAIRN_COLUMN(26, A0, A1, 0, 3, 6, 9, 12, 15, 18, 21)
#define CAIRN_COLUMN1(A0, A1) CAIRN_COLUMN(27, A0, A1, 1, 4, 7, 10, 13, 16, 19, 22)
#define CAIRN_COLUMN2(A0, A1) CAIRN_COLUMN(28, A0, A1, 2, 5, 8, 11, 14, 17, 20, 23)
#define CAIRN_LOAD(Q, FROM, AT) "ldr q" #Q ", [%[" #FROM "], #" #AT "]\n"
#define CAIRN_STEP(A0, A1, NEXT0, NEXT1, AT0, AT1, B_AT0, B_AT1, B_AT2) \
  CAIRN_LOAD(NEXT0, a, AT0)                                             \
  CAIRN_COLUMN0(A0, A1)                                                 \
  CAIRN_LOAD(26, b, B_AT0)                                              \
  CAIRN_LOAD(NEXT1, a, AT1)                                             \
  CAIRN_COLUMN1(A0, A1)                                                 \
  CAIRN_LOAD(27, b, B_AT1)                                              \
  CAIRN_COLUMN2(A0, A1)                                                 \
  CAIRN_LOAD(28, b, B_AT2)
#define CAIRN_ZERO(C0, C1, C2) \
  "movi v" #C0 ".4s, #0\n"     \
  "movi v" #C1 ".4s, #0\n"     \
  "movi v" #C2 ".4s, #0\n"
#define CAIRN_ADD(C0, C1, C2)               \
  "ldp q24, q25, [%[start]]\n"              \
  "ldr q26, [%[start], #32]\n"              \
  "add %[start], %[start], %[start_step]\n" \
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

// clang-format on

void multiply_tile(
    std::int64_t depth,
    const float* a,
    const float* b,
    float* c,
    std::int64_t c_step,
    const TileStart& start) {
  std::int64_t quads = depth / 4;
  std::int64_t rest = depth % 4;
  const float* from = start.data;
  for (std::int64_t i = 0; i < tile_rows; ++i) { // prefetch the result
    __builtin_prefetch(c + i * c_step, 1);
    __builtin_prefetch(c + i * c_step + tile_columns - 1, 1);
  }
  asm volatile("ldp q24, q25, [%[a]]\n"
               "ldp q26, q27, [%[b]]\n"
               "ldr q28, [%[b], #32]\n"   //
               CAIRN_ALL_ROWS(CAIRN_ZERO) //
               "cbz %[quads], 2f\n"
               "1:\n"                                              //
               CAIRN_STEP(24, 25, 29, 30, 32, 48, 48, 64, 80)      //
               CAIRN_STEP(29, 30, 24, 25, 64, 80, 96, 112, 128)    //
               CAIRN_STEP(24, 25, 29, 30, 96, 112, 144, 160, 176)  //
               CAIRN_STEP(29, 30, 24, 25, 128, 144, 192, 208, 224) //
               "add %[a], %[a], #128\n"
               "add %[b], %[b], #192\n"
               "subs %[quads], %[quads], #1\n"
               "bgt 1b\n"
               "2:\n"
               "cbz %[rest], 4f\n"
               "3:\n"                                         //
               CAIRN_STEP(24, 25, 29, 30, 32, 48, 48, 64, 80) //
               "mov v24.16b, v29.16b\n"
               "mov v25.16b, v30.16b\n"
               "add %[a], %[a], #32\n"
               "add %[b], %[b], #48\n"
               "subs %[rest], %[rest], #1\n"
               "bgt 3b\n"
               "4:\n"
               "cbz %[start], 5f\n"      //
               CAIRN_ALL_ROWS(CAIRN_ADD) //
               "5:\n"                    //
               CAIRN_ALL_ROWS(CAIRN_STORE)
               : [quads] "+r"(quads),
                 [rest] "+r"(rest),
                 [a] "+r"(a),
                 [b] "+r"(b),
                 [c] "+r"(c),
                 [start] "+r"(from)
               : [step] "r"(c_step * 4), [start_step] "r"(start.step * 4)
               : "memory",
                 "cc",
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
#undef CAIRN_COLUMN0
#undef CAIRN_COLUMN1
#undef CAIRN_COLUMN2
#undef CAIRN_LOAD
#undef CAIRN_STEP
#undef CAIRN_ZERO
#undef CAIRN_ADD
#undef CAIRN_STORE
#undef CAIRN_ALL_ROWS

namespace {

/// Computes a tile of fewer columns. It has few enough sums for a compiler to
/// keep them in registers.
template <int quarters>
void multiply_quarters(
    std::int64_t depth,
    const float* a,
    const float* b,
    float* c,
    std::int64_t c_step,
    const TileStart& start) {
  float32x4_t sums[tile_rows][quarters];
#pragma GCC unroll 16
  for (int i = 0; i < tile_rows * quarters; ++i) {
    sums[i / quarters][i % quarters] = vdupq_n_f32(0);
  }
  for (std::int64_t d = 0; d < depth; ++d) {
    const float32x4_t above = vld1q_f32(a);
    const float32x4_t below = vld1q_f32(a + 4);
#pragma GCC unroll 2
    for (int j = 0; j < quarters; ++j) {
      const float32x4_t right = vld1q_f32(b + 4 * j);
      sums[0][j] = vfmaq_laneq_f32(sums[0][j], right, above, 0);
      sums[1][j] = vfmaq_laneq_f32(sums[1][j], right, above, 1);
      sums[2][j] = vfmaq_laneq_f32(sums[2][j], right, above, 2);
      sums[3][j] = vfmaq_laneq_f32(sums[3][j], right, above, 3);
      sums[4][j] = vfmaq_laneq_f32(sums[4][j], right, below, 0);
      sums[5][j] = vfmaq_laneq_f32(sums[5][j], right, below, 1);
      sums[6][j] = vfmaq_laneq_f32(sums[6][j], right, below, 2);
      sums[7][j] = vfmaq_laneq_f32(sums[7][j], right, below, 3);
    }
    a += tile_rows;
    b += tile_columns;
  }
#pragma GCC unroll 16
  for (int i = 0; i < tile_rows * quarters; ++i) {
    const int row = i / quarters;
    const int column = 4 * (i % quarters);
    float32x4_t sum = sums[row][i % quarters];
    if (start.data != nullptr) {
      sum = vaddq_f32(sum, vld1q_f32(start.data + row * start.step + column));
    }
    vst1q_f32(c + row * c_step + column, sum);
  }
}

} // namespace

void multiply_narrow_tile(
    int quarters,
    std::int64_t depth,
    const float* a,
    const float* b,
    float* c,
    std::int64_t c_step,
    const TileStart& start) {
  if (quarters == 1) {
    multiply_quarters<1>(depth, a, b, c, c_step, start);
  } else {
    multiply_quarters<2>(depth, a, b, c, c_step, start);
  }
}

} // namespace cairn::kernels::cpu
