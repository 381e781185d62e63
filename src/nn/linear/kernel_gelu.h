#pragma once

#include "kernels/internal/cuda/column_sums.h"
#include "nn/linear/gelu.h"

namespace cairn::nn {

/// The form of GELU as the GPU's kernels name it.
inline kernels::cuda::Gelu kernel_gelu(GeluKind kind) {
  return kind == GeluKind::exact ? kernels::cuda::Gelu::exact
                                 : kernels::cuda::Gelu::tanh;
}

} // namespace cairn::nn
