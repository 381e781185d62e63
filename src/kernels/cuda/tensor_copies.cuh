#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bulk_copies.cuh"

// Copies of boxes of a tensor to shared memory, which one thread starts and
// which report to a barrier (bulk_copies.cuh); also to both blocks of a pair.
// What lies outside of the tensor becomes zeros. For Hopper and later.

namespace cairn::kernels::cuda {

/// Where a tensor of three dimensions lies, in bf16 or fp32, and which boxes of
/// it are copied: 128 bytes of the last dimension by `box_rows` of the middle
/// one. Words of 16 bytes are swizzled in shared memory: word w of row r is at
/// place w ^ (r % 8).
struct BoxedTensor {
  const void* data = nullptr;
  std::int64_t matrices = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  int box_rows = 64;
  bool fp32 = false;
};

inline constexpr int box_columns = 64;      ///< of bf16
inline constexpr int fp32_box_columns = 32; ///< of fp32

/// Describes the tensor to the GPU. Returns null, or why it cannot be.
inline const char* describe(const BoxedTensor& tensor, CUtensorMap& map) {
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
  const cuuint64_t bytes = tensor.fp32 ? 4 : 2;
  const cuuint64_t steps[] = {columns * bytes, columns * rows * bytes};
  const cuuint32_t box[] = {
      static_cast<cuuint32_t>(tensor.fp32 ? fp32_box_columns : box_columns),
      static_cast<cuuint32_t>(tensor.box_rows),
      1};
  const cuuint32_t each[] = {1, 1, 1};
  return encode(
             &map,
             tensor.fp32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                         : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
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
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
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
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
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

/// Starts to copy a box back, or to add it to what is there. What lies outside
/// of the tensor is left out. The thread commits later.
__device__ inline void write_box(
    const CUtensorMap& map,
    const BoxPlace& to,
    unsigned from,
    bool add) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (add) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group "
        "[%0, {%2, %3, %4}], [%1];"
        :
        : "l"(&map), "r"(from), "r"(to.column), "r"(to.row), "r"(to.matrix)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
        "[%0, {%2, %3, %4}], [%1];"
        :
        : "l"(&map), "r"(from), "r"(to.column), "r"(to.row), "r"(to.matrix)
        : "memory");
  }
#endif
}

/// Ends a batch of the thread's writes.
__device__ inline void commit_writes() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

/// Waits until no more than `batches` of the thread's batches of writes still
/// read shared memory.
template <int batches>
__device__ void wait_for_reads() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(batches) : "memory");
#endif
}

/// Waits until the thread's writes are done.
__device__ inline void wait_for_writes() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

/// Brings 128 bytes nearer that will be read soon.
__device__ inline void fetch_soon(const void* memory) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" : : "l"(memory));
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
