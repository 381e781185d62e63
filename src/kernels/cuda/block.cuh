#pragma once

#include <cuda_runtime.h>

namespace cairn::kernels::cuda {

inline constexpr int warp_size = 32;

/// Two values that the threads of a block combine at once.
struct Pair {
  float first;
  float second;
};

/// Adds values, or both values of pairs.
struct Add {
  template <class Value>
  static __device__ Value none() {
    return Value{};
  }
  __device__ float operator()(float a, float b) const { return a + b; }
  __device__ Pair operator()(Pair a, Pair b) const {
    return {a.first + b.first, a.second + b.second};
  }
};

__device__ inline float of_thread(float own, int mask) {
  return __shfl_xor_sync(0xffffffffU, own, mask);
}
__device__ inline Pair of_thread(Pair own, int mask) {
  return {of_thread(own.first, mask), of_thread(own.second, mask)};
}

/// Combines the values of a warp's threads; every thread gets the result.
template <class Value, class Combine>
__device__ Value over_warp(Value own, const Combine& combine) {
#pragma unroll
  for (int mask = warp_size / 2; mask > 0; mask /= 2) {
    own = combine(own, of_thread(own, mask));
  }
  return own;
}

/// Combines the values of all threads of the block; every thread gets the
/// result. `combine` must not care which of its arguments comes first. `turn`
/// counts the calls of a kernel: two calls in a row need memory of their own,
/// so that one barrier for each is enough.
template <class Value, class Combine>
__device__ Value over_block(Value own, const Combine& combine, int turn) {
  __shared__ Value of_warps[2][warp_size];
  Value* const shared = of_warps[turn & 1];
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  own = over_warp(own, combine);
  if (lane == 0) {
    shared[threadIdx.x / warp_size] = own;
  }
  __syncthreads();
  own = lane < warps ? shared[lane] : Combine::template none<Value>();
  return over_warp(own, combine);
}

/// Number of threads for `count` pieces of work, in whole warps.
constexpr int threads_for(long long count, int most) {
  const long long whole = (count + warp_size - 1) / warp_size * warp_size;
  return static_cast<int>(whole < most ? whole : most);
}

} // namespace cairn::kernels::cuda
