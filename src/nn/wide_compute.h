#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Whether products and attention of such a tensor are computed in fp32, and
/// rounded to its 16 bits at the end: on CPUs that have no products in 16 bits,
/// libtorch's take many times as long.
bool computes_wide(const at::Tensor& x);

/// In fp32; nothing stays nothing, and so do masks of bool.
at::Tensor widened(const at::Tensor& x);

} // namespace cairn::nn
