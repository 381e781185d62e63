#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Computes silu(gate) * up, with autograd. Keeps the two and nothing else for
/// backward; each way is one pass on a GPU.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

/// Computes silu(gate) * up without autograd.
at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up);

struct SwiGluGradients {
  at::Tensor gate;
  at::Tensor up;
};

/// Gradients of both, given that of the result. Without autograd.
SwiGluGradients swiglu_backward(
    const at::Tensor& gradient,
    const at::Tensor& gate,
    const at::Tensor& up);

} // namespace cairn::nn
