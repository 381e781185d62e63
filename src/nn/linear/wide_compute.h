#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// True when products and attention of this tensor are computed in fp32 and
/// rounded to its 16 bits at the end: on CPUs without products in 16 bits,
/// libtorch's take many times as long.
bool computes_wide(const at::Tensor& x);

/// The tensor in fp32. Undefined tensors and bool masks stay as they are.
at::Tensor widened(const at::Tensor& x);

} // namespace cairn::nn
