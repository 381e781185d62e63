#include "nn/fp8/fp8_product.h"

#include "kernels/internal/gradient_place.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>

#include <utility>
#include <vector>

namespace cairn::nn {
namespace {

/// left x right transposed in float, by libtorch. All values of fp8 are bf16
/// values too, of which a GPU multiplies many at once.
at::Tensor product_by_libtorch(const Fp8Factor& left, const Fp8Factor& right) {
  const at::ScalarType type =
      left.values.is_cuda() ? at::kBFloat16 : at::kFloat;
  return at::mm(left.values.to(type), right.values.to(type).t())
             .to(at::kFloat) *
      (left.unit * right.unit);
}

} // namespace

at::Tensor fp8_product(
    const Fp8Factor& left,
    const Fp8Factor& right,
    const Fp8Addends& addends,
    const Fp8Result& result) {
  if (auto found = gpu_fp8_product(left, right, addends, result)) {
    return *std::move(found);
  }
  at::Tensor sums = product_by_libtorch(left, right);
  for (const at::Tensor& each : {addends.bias, addends.matrix}) {
    if (each.defined()) {
      sums += each.to(at::kFloat);
    }
  }
  return sums.to(result.type);
}

at::Tensor fp8_weight_gradient_or_later(
    const std::shared_ptr<DeferredGradients>& later,
    const at::Tensor& weight,
    const Fp8Matrix& gradient,
    const Fp8Factor& x_columns) {
  const Fp8Factor left = gradient.by_columns();
  const Fp8Result result{weight.scalar_type(), /*exact_sums=*/true};
  if (later && DeferredGradients::takes(weight)) {
    later->add({weight}, [left, x_columns, result] {
      return std::vector{fp8_product(left, x_columns, {}, result)};
    });
    return {};
  }
  kernels::GradientPlace* const wanted = kernels::gradient_place(weight);
  const auto sum = wanted ? wanted->take_sum() : kernels::GradientPlace::Sum();
  if (!sum.memory.defined()) {
    return fp8_product(left, x_columns, {}, result);
  }
  at::Tensor into = sum.memory;
  const Into how = sum.add ? Into::add : Into::overwrite;
  if (!gpu_fp8_product_into(into, left, x_columns, how)) {
    const at::Tensor found = product_by_libtorch(left, x_columns);
    sum.add ? into.add_(found) : into.copy_(found);
  }
  wanted->arrived();
  return {};
}

} // namespace cairn::nn
