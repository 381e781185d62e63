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

/// True when the code of a kernel for the current GPU is for Hopper or later.
template <class... Parameters>
bool is_for_hopper(void (*kernel)(Parameters...)) {
  cudaFuncAttributes code{};
  return cudaFuncGetAttributes(&code, kernel) == cudaSuccess &&
      code.ptxVersion >= 90;
}

/// launch(), but the kernel may begin while the one before it on the stream
/// still runs. It calls wait_for_earlier() before it touches what others write.
/// Code for GPUs before Hopper cannot wait, and is started as usual.
template <class... Parameters, class... Arguments>
const char* launch_early(
    void (*kernel)(Parameters...),
    const Grid& grid,
    void* stream,
    const Arguments&... given) {
  if (!is_for_hopper(kernel)) {
    return launch(kernel, grid, stream, given...);
  }
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &early;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, Parameters(given)...);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

/// Lets the kernel behind this one begin, if it was started early.
__device__ inline void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// Waits until the kernels before this one have ended, so that what they wrote
/// can be read, and what they read can be written.
__device__ inline void wait_for_earlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
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

/// Number of blocks that launch_together() takes: one for each processor, or
/// one alone where a device does not promise to run several at once.
inline int blocks_together() {
  int device = 0;
  int runs_together = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&runs_together, cudaDevAttrCooperativeLaunch, device);
  return runs_together != 0 ? processors() : 1;
}

/// launch(), for blocks that wait for each other: either all of them run at
/// once, or the launch fails.
template <class... Parameters, class... Arguments>
const char* launch_together(
    void (*kernel)(Parameters...),
    const Grid& grid,
    void* stream,
    const Arguments&... given) {
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &together;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, Parameters(given)...);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

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
