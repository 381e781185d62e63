#include "zero/tiers/page_lock.h"

#include <c10/cuda/CUDAFunctions.h>
#include <cairn/base/error.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace cairn::zero {

void page_lock(std::span<std::byte> memory) {
  if (memory.empty() || c10::cuda::device_count() == 0) {
    return;
  }
  const cudaError_t error =
      cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable);
  if (error != cudaSuccess) {
    cudaGetLastError(); // or the error would show up in another call
    throw Error(
        {.what = "host memory cannot be page-locked for the GPU",
         .values = fmt::format(
             "{} bytes: {}",
             memory.size(),
             cudaGetErrorString(error)),
         .remedy = "set pin_memory to false under offload_optimizer and "
                   "offload_param, or raise the limit of locked memory"});
  }
}

void page_unlock(std::span<std::byte> memory) noexcept {
  if (!memory.empty() && c10::cuda::device_count() > 0) {
    // May fail at the end of a program, when the driver is gone.
    cudaHostUnregister(memory.data());
    cudaGetLastError();
  }
}

} // namespace cairn::zero
