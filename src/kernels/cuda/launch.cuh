#pragma once

#include <cuda_runtime.h>

#include <tuple>
#include <utility>

namespace cairn::kernels::cuda {

/// Queues a kernel on a stream. Returns null, or the reason why it could not be
/// started. A function instead of <<<…>>>, so that device code is plain C++ and
/// tests can run it on a CPU (tests/kernels/cuda_on_cpu).
template <class... Parameters, class... Arguments>
const char* launch(
    void (*kernel)(Parameters...),
    dim3 blocks,
    dim3 threads,
    void* stream,
    const Arguments&... given) {
  std::tuple<Parameters...> arguments{given...};
  std::apply(
      [&](auto&... each) {
        void* pointers[] = {static_cast<void*>(&each)...};
        cudaLaunchKernel(
            kernel,
            blocks,
            threads,
            pointers,
            0,
            static_cast<cudaStream_t>(stream));
      },
      arguments);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

} // namespace cairn::kernels::cuda
