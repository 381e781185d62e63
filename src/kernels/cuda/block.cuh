#pragma once

#include <cuda_runtime.h>

namespace cairn::kernels::cuda {

inline constexpr int warp_size = 32;

/// Two values that the threads of a block combine at once.
struct Pair {
  float first;
  float second;
};

/// Adds both values.
struct AddPairs {
  static __device__ Pair none() { return {0, 0}; }
  __device__ Pair operator()(Pair a, Pair b) const {
    return {a.first + b.first, a.second + b.second};
  }
};

/// Combines the pairs of a warp's threads; every thread gets the result.
template <class Combine>
__device__ Pair over_warp(Pair own, const Combine& combine) {
#pragma unroll
  for (int mask = warp_size / 2; mask > 0; mask /= 2) {
    const Pair other{
        __shfl_xor_sync(0xffffffffU, own.first, mask),
        __shfl_xor_sync(0xffffffffU, own.second, mask)};
    own = combine(own, other);
  }
  return own;
}

/// Combines the pairs of all threads of the block; every thread gets the
/// result. `combine` must not care which of its arguments comes first. `turn`
/// counts the calls of a kernel: two calls in a row need memory of their own,
/// so that one barrier for each is enough.
template <class Combine>
__device__ Pair over_block(Pair own, const Combine& combine, int turn) {
  __shared__ Pair of_warps[2][warp_size];
  Pair* const shared = of_warps[turn & 1];
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  own = over_warp(own, combine);
  if (lane == 0) {
    shared[threadIdx.x / warp_size] = own;
  }
  __syncthreads();
  return over_warp(lane < warps ? shared[lane] : Combine::none(), combine);
}

/// Number of threads for `count` pieces of work, in whole warps.
constexpr int threads_for(long long count, int most) {
  const long long whole = (count + warp_size - 1) / warp_size * warp_size;
  return static_cast<int>(whole < most ? whole : most);
}

} // namespace cairn::kernels::cuda
