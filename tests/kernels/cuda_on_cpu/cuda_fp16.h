#pragma once

#include "cuda_runtime.h"

using __half = _Float16;

inline __half __ushort_as_half(std::uint16_t bits) {
  return std::bit_cast<__half>(bits);
}
inline std::uint16_t __half_as_ushort(__half value) {
  return std::bit_cast<std::uint16_t>(value);
}
inline float __half2float(__half value) {
  return static_cast<float>(value);
}
inline __half __float2half_rn(float value) {
  return static_cast<__half>(value);
}
