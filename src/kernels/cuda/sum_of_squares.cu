#include "kernels/internal/cuda/sum_of_squares.h"

#include "kernels/cuda/for_each.cuh"
#include "kernels/cuda/row_of_block.cuh"

#include <algorithm>
#include <type_traits>

namespace cairn::kernels::cuda {
namespace {

constexpr int reads_at_once = 4; ///< of a thread
constexpr int turns = 8;         ///< of each thread, in a block of elements
constexpr std::int64_t elements_of_block = 8 * turns * block_size;

/// The squares of at most 8 * reads_at_once elements are added in float, so
/// that the sum of all is as exact as its addends.
template <Element element, int width>
__device__ double squares_of(
    const void* values,
    std::int64_t begin,
    std::int64_t end) {
  constexpr std::int64_t step = block_size * width;
  double sum = 0;
  std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * width;
  const auto add = [&](auto count) {
    Lane lanes[count()][width];
#pragma unroll
    for (int k = 0; k < count(); ++k) {
      load(values, element, i + k * step, lanes[k]);
    }
    float part = 0;
#pragma unroll
    for (int k = 0; k < count(); ++k) {
#pragma unroll
      for (int j = 0; j < width; ++j) {
        part = __fmaf_rn(lanes[k][j].value, lanes[k][j].value, part);
      }
    }
    sum += static_cast<double>(part);
    i += count() * step;
  };
  while (i + (reads_at_once - 1) * step + width <= end) {
    add(std::integral_constant<int, reads_at_once>());
  }
  while (i + width <= end) {
    add(std::integral_constant<int, 1>());
  }
  for (; i < end; ++i) { // at most one thread has elements left
    Lane value[1];
    load(values, element, i, value);
    sum += static_cast<double>(value[0].value * value[0].value);
  }
  return sum;
}

__device__ inline double squares_of(
    const SquaredRow& row,
    std::int64_t begin,
    std::int64_t end) {
  const bool whole = row.vectors != 0;
  const void* const values = row.values;
  switch (row.type) {
    case Element::fp32:
      return whole ? squares_of<Element::fp32, 4>(values, begin, end)
                   : squares_of<Element::fp32, 1>(values, begin, end);
    case Element::bf16:
      return whole ? squares_of<Element::bf16, 8>(values, begin, end)
                   : squares_of<Element::bf16, 1>(values, begin, end);
    case Element::fp16:
      return whole ? squares_of<Element::fp16, 8>(values, begin, end)
                   : squares_of<Element::fp16, 1>(values, begin, end);
  }
  return 0;
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
    own += squares_of(row, begin, end);
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
    row.vectors = aligned_for_eight(row.values) ? 1 : 0;
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
