#pragma once

#include "kernels/cuda/fast_math.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/internal/cuda/text_rows.h"

namespace cairn::kernels::cuda {

__device__ inline float activated(float x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::gelu:
      return gelu(x, Gelu::exact);
    case Activation::gelu_tanh:
      return gelu(x, Gelu::tanh);
    case Activation::relu:
      return x < 0 ? 0 : x; // what is not a number stays
    case Activation::silu:
      return x * sigmoid(x);
    case Activation::squared_relu:
      return x < 0 ? 0 : x * x;
  }
  return x;
}

} // namespace cairn::kernels::cuda
