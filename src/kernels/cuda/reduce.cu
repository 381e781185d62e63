#include "kernels/cuda/for_each.cuh"
#include "kernels/internal/cuda/cuda.h"

namespace cairn::kernels::cuda {
namespace {

/// The sum of the values of all threads of the block, in a fixed order.
template <int size>
__device__ double sum_over_block(double own) {
  __shared__ double sums[size];
  sums[threadIdx.x] = own;
  __syncthreads();
  for (int half = size / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) {
      sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
  }
  return sums[0];
}

template <int width>
__global__ void squares_of_blocks(
    const void* values,
    Element element,
    std::int64_t count,
    double* sums) {
  const std::int64_t stride =
      static_cast<std::int64_t>(gridDim.x) * block_size * width;
  std::int64_t i =
      (static_cast<std::int64_t>(blockIdx.x) * block_size + threadIdx.x) *
      width;
  double own = 0;
  for (; i + width <= count; i += stride) {
    Lane lanes[width];
    load(values, element, i, lanes);
#pragma unroll
    for (int j = 0; j < width; ++j) {
      const double value = lanes[j].value;
      own += value * value;
    }
  }
  for (; i < count; ++i) {
    Lane lanes[1];
    load(values, element, i, lanes);
    const double value = lanes[0].value;
    own += value * value;
  }
  own = sum_over_block<block_size>(own);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = own;
  }
}

__global__ void sum_of_blocks(const double* sums, int blocks, double* result) {
  const int i = static_cast<int>(threadIdx.x);
  const double sum = sum_over_block<sum_workspace>(i < blocks ? sums[i] : 0);
  if (i == 0) {
    *result = sum;
  }
}

struct FindNonFinite {
  const void* values;
  Element element;
  unsigned long long* first;

  template <int width>
  __device__ void operator()(std::int64_t i) const {
    Lane lanes[width];
    load(values, element, i, lanes);
#pragma unroll
    for (int j = 0; j < width; ++j) {
      if (!isfinite(lanes[j].value)) {
        atomicMin(first, static_cast<unsigned long long>(i + j));
      }
    }
  }
};

} // namespace

const char* sum_of_squares(
    const void* values,
    Element element,
    std::int64_t count,
    double* workspace,
    double* result,
    void* stream) {
  // The number of blocks depends on the count alone, and so does the order of
  // additions. Unaligned values are added in the same order, one at a time.
  constexpr std::int64_t per_block = 4 * block_size;
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>(
      (count + per_block - 1) / per_block,
      1,
      sum_workspace));
  const char* const failure = launch(
      aligned(values, element) ? squares_of_blocks<4> : squares_of_blocks<1>,
      {blocks, block_size},
      stream,
      values,
      element,
      count,
      workspace);
  return failure != nullptr ? failure
                            : launch(
                                  sum_of_blocks,
                                  {1, sum_workspace},
                                  stream,
                                  workspace,
                                  static_cast<int>(blocks),
                                  result);
}

const char* first_non_finite(
    const void* values,
    Element element,
    std::int64_t count,
    std::int64_t* result,
    void* stream) {
  // -1 is the largest unsigned number, so the smallest position found wins.
  const cudaError_t error = cudaMemsetAsync(
      result,
      0xff,
      sizeof *result,
      static_cast<cudaStream_t>(stream));
  if (error != cudaSuccess) {
    return cudaGetErrorString(error);
  }
  return for_each(
      count,
      aligned(values, element),
      FindNonFinite{
          values,
          element,
          reinterpret_cast<unsigned long long*>(result)},
      stream);
}

} // namespace cairn::kernels::cuda
