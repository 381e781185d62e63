#pragma once

#include "kernels/internal/cuda/cuda.h"
#include "kernels/internal/element_of.h"

#include <ATen/core/Tensor.h>
#include <cairn/base/error.h>

namespace cairn::nn {

/// True when x is on a GPU and of a type that kernels know.
inline bool is_on_gpu(const at::Tensor& x) {
  return x.is_cuda() && kernels::element_of(x.scalar_type()).has_value();
}

/// True when kernels on the rows of matrices take x, which has no gaps then.
inline bool has_row_kernels(const at::Tensor& x) {
  return is_on_gpu(x) && x.is_contiguous();
}

inline void* stream_of(const at::Tensor& x) {
  return kernels::cuda::current_stream(x.get_device());
}

/// Throws if a kernel could not be started.
inline void started(const char* failure, const char* kernel) {
  if (failure != nullptr) {
    throw InternalError({.what = failure, .where = kernel});
  }
}

/// Pointer of a tensor that may be undefined.
inline const void* data_or_null(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr() : nullptr;
}

} // namespace cairn::nn
