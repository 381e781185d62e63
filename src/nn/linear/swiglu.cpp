#include "nn/linear/swiglu.h"

#include "kernels/internal/cuda/swiglu.h"
#include "nn/linear/gpu_kernel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace cairn::nn {
namespace {

namespace cuda = kernels::cuda;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// True when the GPU's kernels take all of them.
bool has_kernels(const at::Tensor& gate, const at::Tensor& other) {
  return has_row_kernels(gate) && has_row_kernels(other) &&
      gate.scalar_type() == other.scalar_type() &&
      gate.sizes() == other.sizes();
}

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& gate,
      const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return swiglu_forward(gate, up);
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    const variable_list saved = context->get_saved_variables();
    SwiGluGradients found = swiglu_backward(outer[0], saved[0], saved[1]);
    return {std::move(found.gate), std::move(found.up)};
  }
};

} // namespace

at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up) {
  if (!has_kernels(gate, up)) {
    return at::silu(gate).mul_(up);
  }
  at::Tensor y = at::empty_like(gate);
  run_kernel(gate, "SwiGLU", [&](void* stream) {
    return cuda::swiglu_forward(
        *kernels::element_of(gate.scalar_type()),
        gate.numel(),
        gate.const_data_ptr(),
        up.const_data_ptr(),
        y.mutable_data_ptr(),
        stream);
  });
  return y;
}

SwiGluGradients swiglu_backward(
    const at::Tensor& given,
    const at::Tensor& gate,
    const at::Tensor& up) {
  if (!has_kernels(gate, up) || given.scalar_type() != gate.scalar_type()) {
    return {at::silu_backward(given * up, gate), at::silu(gate).mul_(given)};
  }
  const at::Tensor gradient = given.contiguous();
  SwiGluGradients of{at::empty_like(gate), at::empty_like(up)};
  run_kernel(gate, "SwiGLU backward", [&](void* stream) {
    return cuda::swiglu_backward(
        *kernels::element_of(gate.scalar_type()),
        gate.numel(),
        gradient.const_data_ptr(),
        gate.const_data_ptr(),
        up.const_data_ptr(),
        of.gate.mutable_data_ptr(),
        of.up.mutable_data_ptr(),
        stream);
  });
  return of;
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return SwiGlu::apply(gate, up);
}

} // namespace cairn::nn
