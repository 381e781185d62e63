#pragma once

#include "cuda_runtime.h"

#include <c10/util/Half.h>

using __half = c10::Half;

inline __half __ushort_as_half(std::uint16_t bits) {
  return __half(bits, __half::from_bits());
}
inline std::uint16_t __half_as_ushort(__half value) {
  return value.x;
}
inline float __half2float(__half value) {
  return value;
}
inline __half __float2half_rn(float value) {
  return value;
}
