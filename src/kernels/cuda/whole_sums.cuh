#pragma once

#include "kernels/cuda/block.cuh"

#include <cstdint>

namespace cairn::kernels::cuda {

/// A sum of whole numbers, which has one value whatever its order.
using WholeSum = std::uint64_t;

__device__ inline WholeSum sum_of_thread(WholeSum own, int mask) {
  const std::uint32_t low =
      __shfl_xor_sync(0xffffffffU, static_cast<std::uint32_t>(own), mask);
  const std::uint32_t high = __shfl_xor_sync(
      0xffffffffU,
      static_cast<std::uint32_t>(own >> 32U),
      mask);
  return static_cast<WholeSum>(high) << 32U | low;
}

struct SumPlace {
  WholeSum before; ///< the sum of the threads before this one
  WholeSum all;
};

/// Adds up the values of a block of `threads` threads. All of them call it.
template <int threads>
__device__ SumPlace over_threads(WholeSum own) {
  constexpr int warps = threads / warp_size;
  __shared__ WholeSum of_warps[warps];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  SumPlace place{0, own};
#pragma unroll
  for (int mask = 1; mask < warp_size; mask *= 2) {
    const WholeSum other = sum_of_thread(place.all, mask);
    place.before += (lane & mask) != 0 ? other : 0;
    place.all += other;
  }
  __syncthreads(); // what the last call wrote was read
  if (lane == 0) {
    of_warps[warp] = place.all;
  }
  __syncthreads();
  place.all = 0;
#pragma unroll
  for (int i = 0; i < warps; ++i) {
    place.before += i < warp ? of_warps[i] : 0;
    place.all += of_warps[i];
  }
  return place;
}

/// Sums of digits in a block's shared memory. The GPU adds words of 32 bits
/// there at once.
template <int digits>
struct DigitSums {
  unsigned low[digits];
  unsigned high[digits];

  __device__ void clear() {
    for (int i = static_cast<int>(threadIdx.x); i < digits;
         i += static_cast<int>(blockDim.x)) {
      low[i] = 0;
      high[i] = 0;
    }
  }
  __device__ void add(unsigned digit, WholeSum value) {
    const auto added = static_cast<unsigned>(value);
    const unsigned before = atomicAdd(low + digit, added);
    const unsigned carry = before + added < before ? 1U : 0U;
    const unsigned rest = static_cast<unsigned>(value >> 32U) + carry;
    if (rest != 0) {
      atomicAdd(high + digit, rest);
    }
  }
  __device__ WholeSum of(unsigned digit) const {
    return static_cast<WholeSum>(high[digit]) << 32U | low[digit];
  }
};

} // namespace cairn::kernels::cuda
