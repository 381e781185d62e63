#include "zero/optimizer/place_of.h"

#include <c10/cuda/CUDAStream.h>

namespace cairn::zero {

optim::Place place_of(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) {
    return {};
  }
  return {
      .cuda = true,
      .stream = c10::cuda::getCurrentCUDAStream(tensor.get_device()).stream()};
}

} // namespace cairn::zero
