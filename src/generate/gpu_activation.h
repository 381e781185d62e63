#pragma once

#include "kernels/internal/cuda/text_rows.h"

#include <cairn/model/description.h>

namespace cairn::generate {

inline kernels::cuda::Activation gpu_activation(model::ActivationKind kind) {
  using kernels::cuda::Activation;
  switch (kind) {
    case model::ActivationKind::gelu:
      return Activation::gelu;
    case model::ActivationKind::gelu_tanh:
      return Activation::gelu_tanh;
    case model::ActivationKind::relu:
      return Activation::relu;
    case model::ActivationKind::squared_relu:
      return Activation::squared_relu;
    case model::ActivationKind::silu:
      break;
  }
  return Activation::silu;
}

} // namespace cairn::generate
