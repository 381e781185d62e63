#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/internal/cuda/cuda.h"

namespace cairn::kernels::cuda {

bool has_kernels() {
  return true;
}

void* current_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device))
      .stream();
}

bool is_recording(int device) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  C10_CUDA_CHECK(cudaStreamIsCapturing(
      static_cast<cudaStream_t>(current_stream(device)),
      &status));
  return status != cudaStreamCaptureStatusNone;
}

} // namespace cairn::kernels::cuda
