#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cairn::nn {

/// True when the memory of x begins where kernels read 16 bytes at a time.
inline bool is_at_sixteen(const at::Tensor& x) {
  constexpr std::uintptr_t bytes = 16;
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % bytes == 0;
}

/// A matrix as kernels take it, which is `x` unless it begins at an odd place
/// in memory or has gaps. It may be undefined.
inline at::Tensor for_kernel(const at::Tensor& x) {
  return !x.defined() || (x.is_contiguous() && is_at_sixteen(x))
      ? x
      : x.clone(at::MemoryFormat::Contiguous);
}

} // namespace cairn::nn
