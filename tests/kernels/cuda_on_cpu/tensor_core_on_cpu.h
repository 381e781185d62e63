#pragma once

#include "cuda_fp16.h"
#include "cuda_runtime.h"

#include <cairn/kernels/stretch.h>

// The functions of kernels/cuda/tensor_core.cuh. The threads of a warp exchange
// what they have, and each computes its own elements of the result.

namespace cairn::kernels::cuda {

/// Element `number` of the pairs of 16 bits that `lane` gave.
template <Element element, std::size_t count>
float gathered(
    const std::uint32_t (&words)[32 * count],
    unsigned lane,
    unsigned word,
    unsigned number) {
  const auto bits =
      static_cast<std::uint16_t>(words[lane * count + word] >> (16 * number));
  return element == Element::bf16
      ? __uint_as_float(static_cast<std::uint32_t>(bits) << 16U)
      : __half2float(__ushort_as_half(bits));
}

template <Element element>
void multiply_add(
    float (&sum)[4],
    const std::uint32_t (&a)[4],
    std::uint32_t b0,
    std::uint32_t b1) {
  const std::uint32_t own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  std::uint32_t all[32 * 6];
  cuda_on_cpu::gather(own, 6, all);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + i / 2 * 8;
    const unsigned column = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned t = k % 8 / 2;
      const float left = gathered<element, 6>(
          all,
          row % 8 * 4 + t,
          row / 8 + k / 8 * 2,
          k % 2);
      const float right =
          gathered<element, 6>(all, column * 4 + t, 4 + k / 8, k % 2);
      sum[i] += left * right;
    }
  }
}

template <Element element>
void multiply(
    float (&product)[4],
    const std::uint32_t (&a)[4],
    std::uint32_t b0,
    std::uint32_t b1) {
  std::fill_n(product, 4, 0.0F);
  multiply_add<element>(product, a, b0, b1);
}

inline void load_matrices(std::uint32_t (&pairs)[4], const uint4* row) {
  const void* rows[32];
  cuda_on_cpu::gather(row, rows);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) {
    std::memcpy(
        &pairs[i],
        static_cast<const char*>(rows[8 * i + lane / 4]) + lane % 4 * 4,
        4);
  }
}

inline void load_transposed(std::uint32_t (&pairs)[4], const uint4* row) {
  const void* rows[32];
  cuda_on_cpu::gather(row, rows);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) {
    std::uint16_t two[2];
    for (unsigned k = 0; k < 2; ++k) {
      two[k] = static_cast<const std::uint16_t*>(
          rows[8 * i + lane % 4 * 2 + k])[lane / 4];
    }
    std::memcpy(&pairs[i], two, 4);
  }
}

/// Copies arrive when they are waited for: see cuda_on_cpu.h.
template <class Value, class Source>
void copy_or_clear(Value* to, const Source* from, bool copies) {
  static const Value zero{};
  cuda_on_cpu::copy_later(
      to,
      copies ? static_cast<const void*>(from) : &zero,
      sizeof(Value));
}

} // namespace cairn::kernels::cuda
