#pragma once

#include "cuda_runtime.h"

#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>

enum __nv_saturation_t { __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

/// Two numbers in fp8, the first one lowest. What is too large becomes the
/// format's largest number.
inline unsigned short __nv_cvt_float2_to_fp8x2(
    float2 pair,
    __nv_saturation_t,
    __nv_fp8_interpretation_t format) {
  const auto bits = [&](float value) -> unsigned {
    const float limit = format == __NV_E4M3 ? 448.0F : 57344.0F;
    const float held =
        value == value ? std::clamp(value, -limit, limit) : value;
    return format == __NV_E4M3 ? c10::Float8_e4m3fn(held).x
                               : c10::Float8_e5m2(held).x;
  };
  return static_cast<unsigned short>(bits(pair.x) | bits(pair.y) << 8U);
}
