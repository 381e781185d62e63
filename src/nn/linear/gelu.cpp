#include "nn/linear/gelu.h"

#include "kernels/internal/cpu/gelu.h"
#include "kernels/internal/cpu/matrix_product.h"
#include "kernels/internal/cuda/column_sums.h"
#include "kernels/internal/in_parallel.h"
#include "nn/linear/column_sums.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/kernel_gelu.h"
#include "nn/linear/second_derivatives.h"
#include "nn/linear/summed_parts.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace cairn::nn {
namespace {

namespace cpu = kernels::cpu;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Calls body(begin, size) on the parts of a tensor, on all threads.
template <typename Body>
void over_elements(const at::Tensor& x, const Body& body) {
  constexpr std::int64_t block = 1 << 13;
  const std::int64_t count = x.numel();
  kernels::in_parallel(
      (count + block - 1) / block,
      [&](std::int64_t first, std::int64_t last) {
        const std::int64_t begin = first * block;
        body(begin, std::min(count, last * block) - begin);
      });
}

/// Our own kernel on all elements. `slope` may be undefined.
void own_gelu(
    const at::Tensor& x,
    GeluKind kind,
    const at::Tensor& y,
    const at::Tensor& slope) {
  if (!cpu::has_matrix_product()) {
    return;
  }
  const auto which =
      kind == GeluKind::exact ? cpu::Gelu::exact : cpu::Gelu::tanh;
  const float* const from = x.const_data_ptr<float>();
  float* const to = y.mutable_data_ptr<float>();
  float* const slopes =
      slope.defined() ? slope.mutable_data_ptr<float>() : nullptr;
  over_elements(x, [&](std::int64_t begin, std::int64_t size) {
    cpu::gelu(
        which,
        from + begin,
        to + begin,
        slopes != nullptr ? slopes + begin : nullptr,
        size);
  });
}

struct OwnGelu : torch::autograd::Function<OwnGelu> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& given,
      GeluKind kind,
      bool differentiable,
      GeluKeeps keeps) {
    const at::Tensor x = given.contiguous();
    const at::Tensor y = at::empty_like(x);
    at::Tensor slope;
    if (differentiable && keeps == GeluKeeps::slope) {
      slope = at::empty_like(x);
      context->save_for_backward({slope});
    } else if (differentiable) {
      context->save_for_backward({x});
    }
    context->saved_data["exact"] = kind == GeluKind::exact;
    context->saved_data["input"] = keeps == GeluKeeps::input;
    own_gelu(x, kind, y, slope);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("GELU");
    at::Tensor slope = context->get_saved_variables()[0];
    if (context->saved_data["input"].toBool()) {
      const at::Tensor x = slope;
      slope = at::empty_like(x);
      const bool exact = context->saved_data["exact"].toBool();
      own_gelu(
          x,
          exact ? GeluKind::exact : GeluKind::tanh,
          at::empty_like(x),
          slope);
    }
    return {outer[0] * slope, {}, {}, {}};
  }
};

GeluGradients backward_on_gpu(
    const at::Tensor& gradient,
    const at::Tensor& x,
    GeluKind kind,
    const at::Tensor& bias) {
  namespace cuda = kernels::cuda;
  const cuda::MatrixShape shape{
      x.size(0),
      x.size(1),
      *kernels::element_of(x.scalar_type())};
  const at::Tensor of_x = at::empty_like(x);
  const at::Tensor parts = at::empty(
      {cuda::column_parts(shape), shape.columns},
      x.options().dtype(at::kFloat));
  run_kernel(x, "GELU backward", [&](void* stream) {
    return cuda::gelu_backward(
        shape,
        kernel_gelu(kind),
        gradient.const_data_ptr(),
        x.const_data_ptr(),
        of_x.mutable_data_ptr(),
        parts.mutable_data_ptr<float>(),
        stream);
  });
  return {of_x, bias.defined() ? summed_parts(parts, bias) : at::Tensor()};
}

const char* name_of(GeluKind kind) {
  return kind == GeluKind::exact ? "none" : "tanh";
}

} // namespace

bool has_own_gelu(const at::Tensor& x) {
  return cpu::has_matrix_product() && x.is_cpu() &&
      x.scalar_type() == at::kFloat;
}

GeluGradients gelu_backward(
    const at::Tensor& gradient,
    const at::Tensor& x,
    GeluKind kind,
    const at::Tensor& bias) {
  if (has_row_kernels(x) && x.numel() > 0 &&
      gradient.scalar_type() == x.scalar_type()) {
    return backward_on_gpu(gradient.contiguous(), x, kind, bias);
  }
  const at::Tensor of_x = at::gelu_backward(gradient, x, name_of(kind));
  return {of_x, bias.defined() ? bias_gradient(bias, of_x) : at::Tensor()};
}

at::Tensor gelu(const at::Tensor& x, GeluKind kind, GeluKeeps keeps) {
  if (has_own_gelu(x)) {
    const bool differentiable = at::GradMode::is_enabled() && x.requires_grad();
    return OwnGelu::apply(x, kind, differentiable, keeps);
  }
  return at::gelu(x, name_of(kind));
}

} // namespace cairn::nn
