#pragma once

// A small stand-in for CUDA that runs kernels on a CPU, one block after another
// and every thread of a block as a fiber. It is for the tests of our own
// kernels on machines without a GPU: it has what they use and nothing else, and
// says nothing about speed, memory order or alignment.

#include "cuda_on_cpu.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static // blocks run one after another

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) ushort4 {
  unsigned short x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

using std::isfinite;
using std::min;

inline float __uint_as_float(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline std::uint32_t __float_as_uint(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
/// Four bytes of `a` (numbers 0 to 3) and `b` (4 to 7), as the digits of
/// `which` number them, the lowest byte first.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned which) {
  const std::uint64_t both = std::uint64_t{b} << 32U | a;
  unsigned result = 0;
  for (unsigned i = 0; i < 32; i += 8) {
    const unsigned number = which >> i / 2 & 7U;
    result |= static_cast<unsigned>(both >> 8 * number & 0xffU) << i;
  }
  return result;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __fsqrt_rn(float a) {
  return std::sqrt(a);
}
inline float __expf(float a) {
  return std::exp(a);
}
inline float rsqrtf(float a) {
  return 1 / std::sqrt(a);
}

inline unsigned atomicMax(unsigned* number, unsigned value) {
  const unsigned before = *number; // fibers take turns at barriers only
  *number = std::max(before, value);
  return before;
}

inline unsigned atomicAdd(unsigned* number, unsigned value) {
  const unsigned before = *number;
  *number += value;
  return before;
}
inline void __threadfence() {}

inline void __syncthreads() {
  cuda_on_cpu::wait_for_block();
}
inline float __shfl_xor_sync(unsigned, float value, int mask) {
  return cuda_on_cpu::exchange(value, mask);
}

inline bool __any_sync(unsigned, bool value) {
  const std::uint32_t own = value ? 1 : 0;
  std::uint32_t all[32];
  cuda_on_cpu::gather(&own, 1, all);
  return std::find(all, all + 32, 1U) != all + 32;
}
inline std::uint32_t __shfl_xor_sync(unsigned, std::uint32_t value, int mask) {
  return std::bit_cast<std::uint32_t>(
      cuda_on_cpu::exchange(std::bit_cast<float>(value), mask));
}

using cudaStream_t = void*;
using cudaError_t = int;
constexpr cudaError_t cudaSuccess = 0;
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };

inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
inline const char* cudaGetErrorString(cudaError_t) {
  return "no error";
}
inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(
    void* to,
    const void* from,
    std::size_t bytes,
    cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(
    void* memory,
    int value,
    std::size_t bytes,
    cudaStream_t) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}

inline uint4* shared_memory() {
  return static_cast<uint4*>(cuda_on_cpu::shared_memory());
}

enum cudaDeviceAttr {
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrCooperativeLaunch
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };

inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
/// A device of three processors with 16 KiB each, so that tests with few rows
/// and columns meet every kernel. Blocks do not run together.
inline cudaError_t cudaDeviceGetAttribute(
    int* value,
    cudaDeviceAttr attribute,
    int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 3
      : attribute == cudaDevAttrCooperativeLaunch      ? 0
                                                       : 16 << 10;
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int* blocks,
    Kernel,
    int,
    std::size_t) {
  *blocks = 1;
  return cudaSuccess;
}

template <class... Parameters>
cudaError_t cudaLaunchKernel(
    void (*kernel)(Parameters...),
    dim3 blocks,
    dim3 threads,
    void** arguments,
    std::size_t shared_bytes,
    cudaStream_t) {
  const auto call = [&]<std::size_t... i>(std::index_sequence<i...>) {
    kernel(*static_cast<Parameters*>(arguments[i])...);
  };
  cuda_on_cpu::run(blocks, threads, shared_bytes, [&] {
    call(std::index_sequence_for<Parameters...>());
  });
  return cudaSuccess;
}

struct cudaFuncAttributes {
  int ptxVersion;
};
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel) {
  attributes->ptxVersion = 90;
  return cudaSuccess;
}

enum cudaLaunchAttributeID {
  cudaLaunchAttributeProgrammaticStreamSerialization,
  cudaLaunchAttributeCooperative
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
    int cooperative;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim{1};
  dim3 blockDim{1};
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
/// Kernels end before the next one begins, also where they need not.
template <class... Parameters>
cudaError_t cudaLaunchKernelEx(
    const cudaLaunchConfig_t* config,
    void (*kernel)(Parameters...),
    Parameters... arguments) {
  cuda_on_cpu::run(
      config->gridDim,
      config->blockDim,
      config->dynamicSmemBytes,
      [&] { kernel(arguments...); });
  return cudaSuccess;
}
