#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bulk_copies.cuh"

// Copies of boxes of a tensor to shared memory, which one thread starts and
// which report to a barrier (bulk_copies.cuh); also to both blocks of a pair.
// What lies outside of the tensor becomes zeros. For Hopper and later.

namespace cairn::kernels::cuda {

/// Where a bf16 tensor of three dimensions lies, and which boxes are copied:
/// 64 elements of the last dimension, 128 bytes, by `box_rows` of the middle
/// one. Words of 16 bytes are swizzled: word w of row r is at place w ^ (r %
/// 8).
struct TensorOf16Bits {
  const void* data = nullptr;
  std::int64_t matrices = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  int box_rows = 64;
};

inline constexpr int box_columns = 64;

/// Describes the tensor to the GPU. Returns null, or why it cannot be.
inline const char* describe(const TensorOf16Bits& tensor, CUtensorMap& map) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    constexpr unsigned version = 12000;
    return cudaGetDriverEntryPointByVersion(
               "cuTensorMapEncodeTiled",
               &found,
               version,
               cudaEnableDefault,
               &result) == cudaSuccess
        ? reinterpret_cast<Encode>(found)
        : nullptr;
  }();
  if (encode == nullptr) {
    return "the driver has no cuTensorMapEncodeTiled";
  }
  const auto columns = static_cast<cuuint64_t>(tensor.columns);
  const auto rows = static_cast<cuuint64_t>(tensor.rows);
  const cuuint64_t sizes[] = {
      columns,
      rows,
      static_cast<cuuint64_t>(tensor.matrices)};
  const cuuint64_t steps[] = {columns * 2, columns * rows * 2};
  const cuuint32_t box[] = {
      static_cast<cuuint32_t>(box_columns),
      static_cast<cuuint32_t>(tensor.box_rows),
      1};
  const cuuint32_t each[] = {1, 1, 1};
  return encode(
             &map,
             CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
             3,
             const_cast<void*>(tensor.data),
             sizes,
             steps,
             box,
             each,
             CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
      ? nullptr
      : "the driver refuses to describe a tensor";
}

/// First element of a box.
struct BoxPlace {
  int column = 0;
  int row = 0;
  int matrix = 0;
};

__device__ inline void copy_box(
    unsigned to,
    const CUtensorMap& map,
    const BoxPlace& from,
    CopyBarrier* barrier) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
      :
      : "r"(to),
        "l"(&map),
        "r"(shared_place(barrier)),
        "r"(from.column),
        "r"(from.row),
        "r"(from.matrix)
      : "memory");
#endif
}

/// copy_box() to the same place in both blocks of the pair. It reports to the
/// same barrier in each.
__device__ inline void copy_box_to_pair(
    unsigned to,
    const CUtensorMap& map,
    const BoxPlace& from,
    CopyBarrier* barrier) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL // slow in code for others
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;"
      :
      : "r"(to),
        "l"(&map),
        "r"(shared_place(barrier)),
        "r"(from.column),
        "r"(from.row),
        "r"(from.matrix),
        "h"(static_cast<std::uint16_t>(3))
      : "memory");
#endif
}

/// Arrives at the same barrier in block `block` of the pair. Ordinary stores
/// before it are not seen there: publishing them takes as long as a product.
__device__ inline void arrive_in(CopyBarrier* barrier, unsigned block) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("{\n"
               ".reg .b32 there;\n"
               "mapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
               "}"
               :
               : "r"(shared_place(barrier)), "r"(block)
               : "memory");
#endif
}

/// The threads of both blocks of a pair wait for each other.
__device__ inline void meet_pair() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;\n"
               "barrier.cluster.wait.acquire;" ::
                   : "memory");
#endif
}

/// Brings the description of a tensor near, before it is first used.
__device__ inline void fetch_description(const CUtensorMap& map) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
#endif
}

} // namespace cairn::kernels::cuda
