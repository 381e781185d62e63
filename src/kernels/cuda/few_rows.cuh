#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/row_norm.cuh"
#include "kernels/internal/cuda/few_rows.h"

#include <cstdint>

// What both kernels for products of few rows have in common.

namespace cairn::kernels::cuda {

inline constexpr int few_threads = 256;
inline constexpr int few_warps = few_threads / warp_size;
inline constexpr int piece = 8; ///< elements of 16 bytes
inline constexpr int step_pieces =
    4; ///< that a warp reads of an output at once

/// Asks for memory that all blocks read.
__device__ inline void fetch_line(const void* from) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" : : "l"(from));
#else
  static_cast<void>(from);
#endif
}

/// Pieces from one row of x to the next in shared memory: four more than a
/// multiple of eight, so that two rows lie in different banks.
constexpr int pieces_between(std::int64_t depth) {
  const auto pieces = static_cast<int>(
      (depth + piece * step_pieces - 1) / (piece * step_pieces) * step_pieces);
  return pieces % 8 == 0 ? pieces + 4 : pieces;
}

/// Copies the rows of x to shared memory. Behind a row are zeros.
__device__ inline void copy_few(const FewRowsProduct& x, uint4* to, int step) {
  const int pieces = static_cast<int>(x.depth) / piece;
  const auto* const from = static_cast<const uint4*>(x.x);
  const int count = static_cast<int>(x.rows) * step;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += few_threads) {
    const int row = i / step;
    const int column = i - row * step;
    to[i] = column < pieces ? from[row * pieces + column] : uint4{0, 0, 0, 0};
  }
}

/// Writes the norms of the rows of x to shared memory. A row is that of one
/// warp, or of several, each of which finds its mean.
template <Element element>
__device__ void normalize_few(const FewRowsProduct& x, uint4* to, int step) {
  const int rows = static_cast<int>(x.rows);
  const int pieces = static_cast<int>(x.depth) / piece;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const int share = rows <= 1 ? few_warps
      : rows <= 2             ? few_warps / 2
      : rows <= 4             ? few_warps / 4
                              : 1; ///< warps of a row
  const int row = warp / share;
  if (row >= rows) {
    return;
  }
  const std::int64_t begin = static_cast<std::int64_t>(row) * x.depth;
  RowSums own = sums_from<element>(x.x, begin, x.norm);
  for (int i = lane; i < pieces; i += warp_size) {
    Lane values[piece];
    load(x.x, element, begin + i * piece, values);
    own.add(values);
  }
  own.sums = over_warp(own.sums, Add());
  const RowScale scale = own.scale(x.norm, static_cast<float>(x.depth));
  for (int i = warp % share * warp_size + lane; i < step;
       i += share * warp_size) {
    uint4 bits{0, 0, 0, 0};
    if (i < pieces) {
      Lane values[piece];
      load(x.x, element, begin + i * piece, values);
      normalize_values<element>(values, scale, x.norm, i * piece);
      store(values, &bits, element, 0);
    }
    to[row * step + i] = bits;
  }
}

/// A number that is added to a result; 0 where there is none.
template <Element element>
__device__ float number_at(const void* from, std::int64_t i) {
  Lane value[1];
  value[0].value = 0;
  if (from != nullptr) {
    load(from, element, i, value);
  }
  return value[0].value;
}

/// Multiplies by copies to shared memory: see few_rows_copied.cu.
bool takes_copies(const FewRowsProduct& product);
const char* multiply_by_copies(
    const FewRowsProduct& product,
    Start start,
    void* stream);

} // namespace cairn::kernels::cuda
