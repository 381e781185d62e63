#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>
#include <utility>

namespace cairn::kernels::cuda {

/// Blocks and threads of a kernel. `shared_bytes` is the memory that each block
/// gets from shared_memory().
struct Grid {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;
};

#ifdef __CUDACC__
/// The block's own memory, Grid::shared_bytes of it.
__device__ inline uint4* shared_memory() {
  extern __shared__ uint4 memory[];
  return memory;
}
#endif

/// Queues a kernel on a stream. Returns null, or the reason why it could not be
/// started. A function instead of <<<…>>>, so that device code is plain C++ and
/// tests can run it on a CPU (tests/kernels/cuda_on_cpu).
template <class... Parameters, class... Arguments>
const char* launch(
    void (*kernel)(Parameters...),
    const Grid& grid,
    void* stream,
    const Arguments&... given) {
  std::tuple<Parameters...> arguments{given...};
  std::apply(
      [&](auto&... each) {
        void* pointers[] = {static_cast<void*>(&each)...};
        cudaLaunchKernel(
            kernel,
            grid.blocks,
            grid.threads,
            pointers,
            grid.shared_bytes,
            static_cast<cudaStream_t>(stream));
      },
      arguments);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

/// Bytes of shared memory that one block can have on the current device.
inline std::size_t most_shared_bytes() {
  int device = 0;
  int bytes = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(
      &bytes,
      cudaDevAttrMaxSharedMemoryPerBlockOptin,
      device);
  return static_cast<std::size_t>(bytes);
}

/// Number of multiprocessors of the current device.
inline int processors() {
  int device = 0;
  int count = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

/// Shared memory that a kernel may have for itself, beside Grid::shared_bytes.
inline constexpr std::size_t shared_reserve = 1024;

/// Number of blocks that the current device runs at once; allows the kernel to
/// have shared memory first.
template <class... Parameters>
unsigned blocks_at_once(
    void (*kernel)(Parameters...),
    int threads,
    std::size_t shared_bytes) {
  int on_each = 1;
  if (shared_bytes > 0) {
    cudaFuncSetAttribute(
        kernel,
        cudaFuncAttributeMaxDynamicSharedMemorySize,
        // Not `shared_bytes`: another thread may need more.
        static_cast<int>(most_shared_bytes() - shared_reserve));
  }
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &on_each,
      kernel,
      threads,
      shared_bytes);
  return static_cast<unsigned>(processors()) *
      static_cast<unsigned>(on_each > 0 ? on_each : 1);
}

} // namespace cairn::kernels::cuda
