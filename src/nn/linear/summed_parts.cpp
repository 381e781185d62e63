#include "nn/linear/summed_parts.h"

#include "kernels/internal/cuda/column_sums.h"
#include "kernels/internal/gradient_place.h"
#include "nn/linear/gpu_kernel.h"

#include <ATen/ops/empty.h>

namespace cairn::nn {
namespace {

void sum_parts(const at::Tensor& parts, const at::Tensor& into, bool add) {
  run_kernel(parts, "sum of parts", [&](void* stream) {
    return kernels::cuda::sum_of_parts(
        parts.const_data_ptr<float>(),
        parts.size(0),
        parts.size(1),
        into.mutable_data_ptr(),
        *kernels::element_of(into.scalar_type()),
        add,
        stream);
  });
}

} // namespace

at::Tensor summed_parts(const at::Tensor& parts, const at::Tensor& parameter) {
  kernels::GradientPlace* const wanted = kernels::gradient_place(parameter);
  const auto sum = wanted ? wanted->take_sum() : kernels::GradientPlace::Sum();
  if (sum.memory.defined()) {
    sum_parts(parts, sum.memory, sum.add);
    wanted->arrived();
    return {};
  }
  const at::Tensor gradient =
      at::empty(parameter.sizes(), parts.options().dtype(parameter.dtype()));
  sum_parts(parts, gradient, false);
  return gradient;
}

} // namespace cairn::nn
