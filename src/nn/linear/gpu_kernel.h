#pragma once

#include "kernels/internal/cuda/cuda.h"
#include "kernels/internal/element_of.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <cairn/base/error.h>

namespace cairn::nn {

/// True when our kernels can work on x: on a GPU, of a type that they know, in
/// a program that has them.
inline bool is_on_gpu(const at::Tensor& x) {
  return x.is_cuda() && kernels::element_of(x.scalar_type()).has_value() &&
      kernels::cuda::has_kernels();
}

/// True when kernels on the rows of matrices take x, which has no gaps then.
inline bool has_row_kernels(const at::Tensor& x) {
  return is_on_gpu(x) && x.is_contiguous();
}

/// Starts a kernel on the GPU of x: start(stream) returns null, or why it could
/// not be started, which is an InternalError then. Profilers see an operator of
/// the kernel's name, so that they know whose work it is.
template <typename Start>
void run_kernel(const at::Tensor& x, const char* kernel, const Start& start) {
  RECORD_FUNCTION(kernel, c10::ArrayRef<const c10::IValue>{});
  const c10::OptionalDeviceGuard on_gpu(x.device());
  if (const char* failure =
          start(kernels::cuda::current_stream(x.get_device()))) {
    throw InternalError({.what = failure, .where = kernel});
  }
}

/// Pointer of a tensor that may be undefined.
inline const void* data_or_null(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr() : nullptr;
}

inline float* floats_or_null(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<float>() : nullptr;
}

} // namespace cairn::nn
