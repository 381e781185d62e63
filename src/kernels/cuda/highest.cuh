#pragma once

#include "kernels/cuda/block.cuh"

#include <cmath>
#include <cstdint>

namespace cairn::kernels::cuda {

/// A score with its column; of equal ones the first column is the higher one.
struct Highest {
  float score;
  int column;
};

__device__ inline Highest higher(Highest a, Highest b) {
  const bool second =
      b.score > a.score || (b.score == a.score && b.column < a.column);
  return second ? b : a;
}

__device__ inline Highest of_thread(Highest own, int mask) {
  return {
      __shfl_xor_sync(0xffffffffU, own.score, mask),
      static_cast<int>(__shfl_xor_sync(
          0xffffffffU,
          static_cast<std::uint32_t>(own.column),
          mask))};
}

struct TakeHigher {
  template <class Value>
  static __device__ Value none() {
    return {-INFINITY, 0x7fffffff};
  }
  __device__ Highest operator()(Highest a, Highest b) const {
    return higher(a, b);
  }
};

} // namespace cairn::kernels::cuda
