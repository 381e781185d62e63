#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/cuda/lane.cuh"
#include "kernels/internal/cuda/fp8.h"

namespace cairn::kernels::cuda {

inline constexpr float largest_float = 3.4028235e38F;

/// A byte that is not a number in both formats.
inline constexpr std::uint8_t fp8_no_number = 0x7f;

/// Finds the largest absolute value; one that is not a number is larger than
/// all others.
struct Largest {
  template <class Value>
  static __device__ Value none() {
    return Value{};
  }
  __device__ float operator()(float a, float b) const {
    const std::uint32_t left = __float_as_uint(a) & 0x7fffffffU;
    const std::uint32_t right = __float_as_uint(b) & 0x7fffffffU;
    return __uint_as_float(left > right ? left : right);
  }
};

/// Raises a number that is not negative to another one.
__device__ inline void raise(float* number, float to) {
  // Most blocks find it high enough. The bits of numbers that are not negative
  // are in the order of the numbers.
  if (to > *static_cast<volatile float*>(number)) {
    atomicMax(
        reinterpret_cast<unsigned int*>(number),
        static_cast<unsigned int>(__float_as_uint(to)));
  }
}

/// Four values as the bytes of a word, the first one lowest.
template <Fp8 format>
__device__ std::uint32_t word_of(const Lane* lanes, float factor) {
  constexpr auto as = format == Fp8::e4m3 ? __NV_E4M3 : __NV_E5M2;
  const auto pair = [&](int k) -> std::uint32_t {
    return __nv_cvt_float2_to_fp8x2(
        float2{lanes[k].value * factor, lanes[k + 1].value * factor},
        __NV_SATFINITE,
        as);
  };
  return pair(0) | pair(2) << 16U;
}

} // namespace cairn::kernels::cuda
