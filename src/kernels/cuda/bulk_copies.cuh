#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// Copies to shared memory that a thread starts and that report to a barrier in
// shared memory, for Hopper and later. The stand-in for a GPU
// (tests/kernels/cuda_on_cpu) has functions of the same names.
//
// A barrier counts phases, from 0 on. A phase ends when as many threads have
// arrived as the barrier was made for, and all bytes that were announced have
// come.

#ifndef __CUDACC__
#include <bulk_copies_on_cpu.h>
#else
namespace cairn::kernels::cuda {

using CopyBarrier = std::uint64_t;

__device__ inline unsigned shared_place(const void* memory) {
  return static_cast<unsigned>(__cvta_generic_to_shared(memory));
}

__device__ inline void make_barrier(CopyBarrier* barrier, unsigned threads) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :
               : "r"(shared_place(barrier)), "r"(threads)
               : "memory");
}

/// Makes barriers known to copies; the block's threads meet behind it.
__device__ inline void publish_barriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
#endif
}

__device__ inline void arrive(CopyBarrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
               :
               : "r"(shared_place(barrier))
               : "memory");
}

/// Arrives for several threads.
__device__ inline void arrive_times(CopyBarrier* barrier, unsigned count) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(shared_place(barrier)), "r"(count)
               : "memory");
#endif
}

/// Arrives, and announces that so many bytes will come.
__device__ inline void arrive_for(CopyBarrier* barrier, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(shared_place(barrier)), "r"(bytes)
               : "memory");
#endif
}

/// Waits for the end of a phase, which is the one that runs or the one before.
__device__ inline void wait_for_phase(CopyBarrier* barrier, unsigned phase) {
#if __CUDA_ARCH__ >= 900
  unsigned ended = 0;
  while (ended == 0) {
    asm volatile("{\n"
                 ".reg .pred ended;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, ended;\n"
                 "}"
                 : "=r"(ended)
                 : "r"(shared_place(barrier)), "r"(phase & 1U)
                 : "memory");
  }
#endif
}

/// Starts a copy; both places and the size are multiples of 16 bytes.
__device__ inline void copy_in_bulk(
    void* to,
    const void* from,
    unsigned bytes,
    CopyBarrier* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];"
      :
      : "r"(shared_place(to)), "l"(from), "r"(bytes), "r"(shared_place(barrier))
      : "memory");
#endif
}

/// Reads shared memory where `reads` is true, before all that follows: the
/// compiler does not put it off to save registers.
__device__ inline void read_now(uint4& to, const uint4* from, bool reads) {
  asm volatile("{\n"
               ".reg .pred reads;\n"
               "setp.ne.u32 reads, %5, 0;\n"
               "@reads ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               "}"
               : "+r"(to.x), "+r"(to.y), "+r"(to.z), "+r"(to.w)
               : "r"(shared_place(from)), "r"(reads ? 1U : 0U)
               : "memory");
}

/// The first `threads` threads of the block wait for each other.
__device__ inline void meet_first(int threads) {
  asm volatile("bar.sync 1, %0;" : : "r"(threads) : "memory");
}

/// The threads of a warp wait for each other.
__device__ inline void meet_warp() {
  __syncwarp();
}

} // namespace cairn::kernels::cuda
#endif
