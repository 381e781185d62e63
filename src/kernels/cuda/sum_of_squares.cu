#include "kernels/internal/cuda/sum_of_squares.h"

#include <algorithm>

#include "kernels/cuda/for_each.cuh"
#include "kernels/cuda/row_of_block.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int turns = 4; ///< of each thread, in a block of elements
constexpr std::int64_t elements_of_block = 4 * turns * block_size;

/// The squares of at most 4 * turns elements are added in float, so that the
/// sum of all is as exact as its addends.
template <int width>
__device__ double squares_of(
    const SquaredRow& row,
    std::int64_t begin,
    std::int64_t end) {
  float sum = 0;
  std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * width;
  for (; i + width <= end; i += block_size * width) {
    Lane values[width];
    load(row.values, row.type, i, values);
#pragma unroll
    for (int j = 0; j < width; ++j) {
      sum = __fmaf_rn(values[j].value, values[j].value, sum);
    }
  }
  for (; i < end; ++i) { // at most one thread has elements left
    Lane value[1];
    load(row.values, row.type, i, value);
    sum = __fmaf_rn(value[0].value, value[0].value, sum);
  }
  return static_cast<double>(sum);
}

/// The sum over the threads of a block, for its first thread.
__device__ double over_threads(double own) {
  __shared__ double sums[block_size];
  sums[threadIdx.x] = own;
  for (int half = block_size / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) {
      sums[threadIdx.x] += sums[threadIdx.x + half];
    }
  }
  return sums[0];
}

__global__ void __launch_bounds__(block_size)
    square_parts_kernel(SquaredRows all, double* parts) {
  double own = 0;
  for (std::int64_t block = blockIdx.x; block < all.blocks;
       block += gridDim.x) {
    const SquaredRow row = row_of_block(all.rows, all.count, block);
    const std::int64_t begin = (block - row.first_block) * elements_of_block;
    const std::int64_t end = begin + elements_of_block < row.count
        ? begin + elements_of_block
        : row.count;
    own += row.fours != 0 ? squares_of<4>(row, begin, end)
                          : squares_of<1>(row, begin, end);
  }
  own = over_threads(own);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = own;
  }
}

__global__ void __launch_bounds__(block_size)
    add_parts_kernel(const double* parts, std::int64_t count, double* sum) {
  double own = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += block_size) {
    own += parts[i];
  }
  own = over_threads(own);
  if (threadIdx.x == 0) {
    *sum = own;
  }
}

} // namespace

std::int64_t number_blocks(SquaredRow* rows, std::int64_t count) {
  std::int64_t blocks = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    SquaredRow& row = rows[i];
    row.fours = aligned(row.values, row.type) ? 1 : 0;
    row.first_block = blocks;
    blocks += (row.count + elements_of_block - 1) / elements_of_block;
  }
  return blocks;
}

const char* sum_of_squares(
    const SquaredRows& rows,
    double* parts,
    double* sum,
    void* stream) {
  const std::int64_t count = std::min(rows.blocks, most_square_parts);
  if (count > 0) {
    if (const char* failure = launch(
            square_parts_kernel,
            {static_cast<unsigned>(count), block_size},
            stream,
            rows,
            parts)) {
      return failure;
    }
  }
  return launch(add_parts_kernel, {1, block_size}, stream, parts, count, sum);
}

} // namespace cairn::kernels::cuda
