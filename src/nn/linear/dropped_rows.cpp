#include "nn/linear/dropped_rows.h"

#include "kernels/internal/cpu/dropout.h"
#include "kernels/internal/cuda/dropout.h"
#include "kernels/internal/in_parallel.h"
#include "nn/linear/gpu_kernel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace cairn::nn {
namespace {

using kernels::DropoutRows;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The place as autograd keeps it.
struct DropoutCapsule : torch::CustomClassHolder {
  explicit DropoutCapsule(const DropoutRows& given) : place(given) {}
  DropoutRows place;
};

/// The place with what the tensors tell.
DropoutRows filled(
    DropoutRows place,
    const at::Tensor& x,
    const at::Tensor& samples) {
  place.columns = x.size(-1);
  place.rows = place.columns == 0 ? 0 : x.numel() / place.columns;
  place.element = *kernels::element_of(x.scalar_type());
  place.samples = samples.const_data_ptr<std::int64_t>();
  return place;
}

at::Tensor on_cpu(
    const at::Tensor& x,
    const at::Tensor& samples,
    const DropoutRows& place) {
  at::Tensor y = at::empty_like(x);
  const DropoutRows rows = filled(place, x, samples);
  const void* from = x.const_data_ptr();
  void* to = y.mutable_data_ptr();
  kernels::in_parallel(rows.rows, [&](std::int64_t begin, std::int64_t end) {
    kernels::cpu::dropout_rows(rows, from, to, begin, end);
  });
  return y;
}

at::Tensor dropped(
    const at::Tensor& given,
    const at::Tensor& samples,
    const DropoutRows& place) {
  const at::Tensor x = given.contiguous();
  if (is_on_gpu(x)) {
    at::Tensor y = at::empty_like(x);
    run_kernel(x, "dropout", [&](void* stream) {
      return kernels::cuda::dropout_rows(
          filled(place, x, samples),
          x.const_data_ptr(),
          y.mutable_data_ptr(),
          stream);
    });
    return y;
  }
  if (x.is_cpu() && kernels::element_of(x.scalar_type())) {
    return on_cpu(x, samples, place);
  }
  // A type or a device that our kernels do not know.
  return x *
      on_cpu(at::ones(x.sizes(), at::kFloat), samples.cpu(), place)
          .to(x.options());
}

struct DroppedRows : torch::autograd::Function<DroppedRows> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& samples,
      const DropoutRows& place) {
    context->save_for_backward({samples});
    context->saved_data["place"] =
        c10::IValue::make_capsule(c10::make_intrusive<DropoutCapsule>(place));
    return dropped(x, samples, place);
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    const auto capsule = context->saved_data["place"].toCapsule();
    const auto& place = static_cast<DropoutCapsule&>(*capsule).place;
    return {
        dropped_rows(outer[0], context->get_saved_variables()[0], place),
        {},
        {}};
  }
};

} // namespace

at::Tensor dropped_rows(
    const at::Tensor& x,
    const at::Tensor& samples,
    const DropoutRows& place) {
  return DroppedRows::apply(x, samples, place);
}

} // namespace cairn::nn
