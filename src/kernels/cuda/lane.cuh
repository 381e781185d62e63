#pragma once

#include <cairn/kernels/stretch.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace cairn::kernels::cuda {

/// A float with the operations of cpu/scalar.h. The intrinsics round once and
/// the compiler never fuses them.
struct Lane {
  float value;

  Lane() = default;
  __device__ explicit Lane(float from) : value(from) {}

  __device__ friend Lane operator-(Lane a) { return Lane(-a.value); }
  __device__ friend Lane operator+(Lane a, Lane b) {
    return Lane(__fadd_rn(a.value, b.value));
  }
  __device__ friend Lane operator*(Lane a, Lane b) {
    return Lane(__fmul_rn(a.value, b.value));
  }
  __device__ friend Lane operator/(Lane a, Lane b) {
    return Lane(__fdiv_rn(a.value, b.value));
  }
  __device__ friend Lane fma(Lane a, Lane b, Lane c) {
    return Lane(__fmaf_rn(a.value, b.value, c.value));
  }
  __device__ friend Lane sqrt(Lane a) { return Lane(__fsqrt_rn(a.value)); }
  __device__ friend Lane with_sign_of(Lane a, Lane b) {
    return a.value > 0 ? b : a.value < 0 ? Lane(-b.value) : a;
  }
};

__device__ inline float from_bits(std::uint16_t bits, Element element) {
  return element == Element::bf16
      ? __uint_as_float(static_cast<std::uint32_t>(bits) << 16U)
      : __half2float(__ushort_as_half(bits));
}

__device__ inline std::uint16_t to_bits(float value, Element element) {
  if (element == Element::fp16) {
    return __half_as_ushort(__float2half_rn(value));
  }
  const std::uint32_t bits = __float_as_uint(value);
  const std::uint32_t half = 0x7fffU + (bits >> 16U & 1U); // ties to even
  const std::uint32_t rounded = value == value ? bits + half : bits | 0x400000U;
  return static_cast<std::uint16_t>(rounded >> 16U);
}

/// The bits of two values, `low` in the lower half. On the GPU this is one
/// instruction.
__device__ inline std::uint32_t to_bit_pair(
    float low,
    float high,
    Element element) {
#ifdef __CUDA_ARCH__
  std::uint32_t pair;
  if (element == Element::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  return static_cast<std::uint32_t>(to_bits(high, element)) << 16U |
      to_bits(low, element);
#endif
}

/// Rounds values as storing and loading them would.
template <Element element, int width>
__device__ void round_to(Lane (&lanes)[width]) {
  if constexpr (element != Element::fp32 && width == 1) {
    lanes[0].value = from_bits(to_bits(lanes[0].value, element), element);
  } else if constexpr (element != Element::fp32) {
#pragma unroll
    for (int j = 0; j < width; j += 2) {
      const std::uint32_t pair =
          to_bit_pair(lanes[j].value, lanes[j + 1].value, element);
      lanes[j].value = from_bits(static_cast<std::uint16_t>(pair), element);
      lanes[j + 1].value =
          from_bits(static_cast<std::uint16_t>(pair >> 16U), element);
    }
  }
}

/// Types to access `width` elements at once.
template <int width>
struct Pack;

template <>
struct Pack<1> {
  using Floats = float;
  using Bits = std::uint16_t;
};

template <>
struct Pack<4> {
  using Floats = float4;
  using Bits = ushort4;
};

template <>
struct Pack<8> {
  struct alignas(16) Floats {
    float4 halves[2];
  };
  using Bits = uint4;
};

template <int width>
__device__ void load(
    const void* from,
    Element element,
    std::int64_t i,
    Lane (&lanes)[width]) {
  if (element == Element::fp32) {
    using Floats = typename Pack<width>::Floats;
    const Floats pack =
        *reinterpret_cast<const Floats*>(static_cast<const float*>(from) + i);
#pragma unroll
    for (int j = 0; j < width; ++j) {
      lanes[j].value = reinterpret_cast<const float*>(&pack)[j];
    }
  } else {
    using Bits = typename Pack<width>::Bits;
    const Bits pack = *reinterpret_cast<const Bits*>(
        static_cast<const std::uint16_t*>(from) + i);
#pragma unroll
    for (int j = 0; j < width; ++j) {
      lanes[j].value =
          from_bits(reinterpret_cast<const std::uint16_t*>(&pack)[j], element);
    }
  }
}

template <int width>
__device__ void store(
    const Lane (&lanes)[width],
    void* to,
    Element element,
    std::int64_t i) {
  if (element == Element::fp32) {
    using Floats = typename Pack<width>::Floats;
    Floats pack;
#pragma unroll
    for (int j = 0; j < width; ++j) {
      reinterpret_cast<float*>(&pack)[j] = lanes[j].value;
    }
    *reinterpret_cast<Floats*>(static_cast<float*>(to) + i) = pack;
  } else {
    using Bits = typename Pack<width>::Bits;
    Bits pack;
    if constexpr (width == 1) {
      pack = to_bits(lanes[0].value, element);
    } else {
#pragma unroll
      for (int j = 0; j < width; j += 2) {
        reinterpret_cast<std::uint32_t*>(&pack)[j / 2] =
            to_bit_pair(lanes[j].value, lanes[j + 1].value, element);
      }
    }
    *reinterpret_cast<Bits*>(static_cast<std::uint16_t*>(to) + i) = pack;
  }
}

/// True when four elements at a time can be read from `pointer`.
inline bool aligned(const void* pointer, Element element) {
  const auto bytes = static_cast<std::uintptr_t>(4 * bytes_of(element));
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

/// True when eight elements at a time can be read from `pointer`.
inline bool aligned_for_eight(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

/// Calls `work` with the element as a constant of the compiler's.
template <class Work>
void with_element(Element element, const Work& work) {
  switch (element) {
    case Element::fp32:
      return work(std::integral_constant<Element, Element::fp32>());
    case Element::fp16:
      return work(std::integral_constant<Element, Element::fp16>());
    case Element::bf16:
      return work(std::integral_constant<Element, Element::bf16>());
  }
}

} // namespace cairn::kernels::cuda
