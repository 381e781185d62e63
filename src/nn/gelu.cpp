#include "nn/gelu.h"

#include "kernels/cpu/gelu.h"
#include "kernels/in_parallel.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
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

struct OwnGelu : torch::autograd::Function<OwnGelu> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& given,
      bool exact) {
    const at::Tensor x = given.contiguous();
    context->save_for_backward({x});
    context->saved_data["exact"] = exact;
    const at::Tensor y = at::empty_like(x);
    if constexpr (cpu::has_gelu) {
      const auto kind = exact ? cpu::Gelu::exact : cpu::Gelu::tanh;
      const float* from = x.const_data_ptr<float>();
      float* to = y.mutable_data_ptr<float>();
      over_elements(x, [&](std::int64_t begin, std::int64_t size) {
        cpu::gelu(kind, from + begin, to + begin, size);
      });
    }
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor dy = outer[0].contiguous();
    const at::Tensor dx = at::empty_like(x);
    if constexpr (cpu::has_gelu) {
      const auto kind = context->saved_data["exact"].toBool() ? cpu::Gelu::exact
                                                              : cpu::Gelu::tanh;
      const float* at = x.const_data_ptr<float>();
      const float* from = dy.const_data_ptr<float>();
      float* to = dx.mutable_data_ptr<float>();
      over_elements(x, [&](std::int64_t begin, std::int64_t size) {
        cpu::gelu_backward(kind, at + begin, from + begin, to + begin, size);
      });
    }
    return {dx, {}};
  }
};

} // namespace

at::Tensor gelu(const at::Tensor& x, GeluKind kind) {
  if (cpu::has_gelu && x.is_cpu() && x.scalar_type() == at::kFloat) {
    return OwnGelu::apply(x, kind == GeluKind::exact);
  }
  return at::gelu(x, kind == GeluKind::exact ? "none" : "tanh");
}

} // namespace cairn::nn
