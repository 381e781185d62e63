#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"

namespace cairn::kernels::cuda {

inline constexpr int block_size = 256;

template <int width, class Work>
__global__ void for_each_kernel(std::int64_t count, Work work) {
  const std::int64_t stride =
      static_cast<std::int64_t>(gridDim.x) * blockDim.x * width;
  std::int64_t i =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) *
      width;
  for (; i + width <= count; i += stride) {
    work.template operator()<width>(i);
  }
  for (; i < count; ++i) { // at most one thread has elements left
    work.template operator()<1>(i);
  }
}

/// Calls `work<width>(i)` on the device for all elements; `width` is 4 if
/// `fours`, else 1.
template <class Work>
const char* for_each(
    std::int64_t count,
    bool fours,
    const Work& work,
    void* stream) {
  if (count <= 0) {
    return nullptr;
  }
  const int width = fours ? 4 : 1;
  const std::int64_t threads = (count + width - 1) / width;
  // Beyond 2^20 blocks each thread takes several turns.
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>((threads + block_size - 1) / block_size, 1 << 20));
  return launch(
      fours ? for_each_kernel<4, Work> : for_each_kernel<1, Work>,
      {blocks, block_size},
      stream,
      count,
      work);
}

} // namespace cairn::kernels::cuda
