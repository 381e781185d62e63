#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Computes silu(gate) * up, with autograd. Keeps the two and nothing else for
/// backward; each way is one pass on a GPU.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

} // namespace cairn::nn
