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

} // namespace cairn::kernels::cuda
