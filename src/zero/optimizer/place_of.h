#pragma once

#include "kernels/internal/cuda/cuda.h"

#include <ATen/core/Tensor.h>
#include <cairn/optim/rule.h>

namespace cairn::zero {

/// The place where kernels on this tensor run: the CPU, or its GPU's current
/// stream.
inline optim::Place place_of(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) {
    return {};
  }
  return {
      .cuda = true,
      .stream = kernels::cuda::current_stream(tensor.get_device())};
}

} // namespace cairn::zero
