#pragma once

#include <cairn/kernels/stretch.h>
#include <cuda_runtime.h>

#include <cstdint>

// Instructions that a whole warp executes together. The stand-in for a GPU
// (tests/kernels/cuda_on_cpu) has functions of the same names.
//
// With lane = 4 g + t, a thread has of a matrix
//   of 16 x 16 (A):  rows g and g + 8 in turn, columns 2t and 2t + 1; then the
//                    same of columns 2t + 8 and 2t + 9: four pairs;
//   of 16 x 8 (B):   column g, rows 2t and 2t + 1, then 2t + 8 and 2t + 9;
//   of 16 x 8 (sum): row g, columns 2t and 2t + 1; then row g + 8.

#ifndef __CUDACC__
#include <tensor_core_on_cpu.h>
#else
namespace cairn::kernels::cuda {

__device__ inline unsigned shared_address(const void* memory) {
  return static_cast<unsigned>(__cvta_generic_to_shared(memory));
}

/// Adds the product of two matrices of 16 bits.
template <Element element>
__device__ void multiply_add(
    float (&sum)[4],
    const std::uint32_t (&a)[4],
    std::uint32_t b0,
    std::uint32_t b1) {
  if constexpr (element == Element::bf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// The product of two matrices of 16 bits.
template <Element element>
__device__ void multiply(
    float (&product)[4],
    const std::uint32_t (&a)[4],
    std::uint32_t b0,
    std::uint32_t b1) {
  if constexpr (element == Element::bf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=f"(product[0]), "=f"(product[1]), "=f"(product[2]), "=f"(product[3])
        : "r"(a[0]),
          "r"(a[1]),
          "r"(a[2]),
          "r"(a[3]),
          "r"(b0),
          "r"(b1),
          "f"(0.0F));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=f"(product[0]), "=f"(product[1]), "=f"(product[2]), "=f"(product[3])
        : "r"(a[0]),
          "r"(a[1]),
          "r"(a[2]),
          "r"(a[3]),
          "r"(b0),
          "r"(b1),
          "f"(0.0F));
  }
}

/// Loads four matrices of 8 x 8. `row` is, in lane 8 i + j, row j of matrix i
/// in shared memory. A thread gets elements 2t and 2t + 1 of row g of each.
__device__ inline void load_matrices(
    std::uint32_t (&pairs)[4],
    const uint4* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
      : "r"(shared_address(row))
      : "memory");
}

/// load_matrices() of transposed matrices: elements g of rows 2t and 2t + 1.
__device__ inline void load_transposed(
    std::uint32_t (&pairs)[4],
    const uint4* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
      : "r"(shared_address(row))
      : "memory");
}

/// Starts a copy of 16 bytes to shared memory, or clears them there.
__device__ inline void copy_or_clear(uint4* to, const void* from, bool copies) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(to)), "l"(from), "r"(copies ? 16 : 0)
               : "memory");
}

/// Starts a copy of a float to shared memory, or clears it there.
__device__ inline void copy_or_clear(
    float* to,
    const float* from,
    bool copies) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(shared_address(to)), "l"(from), "r"(copies ? 4 : 0)
               : "memory");
}

/// Starts a copy of two floats to shared memory, or clears them there.
__device__ inline void copy_or_clear(
    float2* to,
    const float2* from,
    bool copies) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
               :
               : "r"(shared_address(to)), "l"(from), "r"(copies ? 8 : 0)
               : "memory");
}

} // namespace cairn::kernels::cuda
#endif
