#include "nn/fp8/gpu_fp8_product.h"

#include "nn/linear/gpu_kernel.h"
#include "nn/linear/gpu_product.h"

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <array>

namespace cairn::nn {
namespace {

namespace cuda = kernels::cuda;

cuda::Fp8 format_of(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat8_e5m2 ? cuda::Fp8::e5m2
                                             : cuda::Fp8::e4m3;
}

/// The product without its result, which is of type `element`.
cuda::Product described(
    const Fp8Factor& left,
    const Fp8Factor& right,
    kernels::Element element) {
  return {
      .rows = left.values.size(0),
      .columns = right.values.size(0),
      .depth = left.values.size(1),
      .element = element,
      .fp8 =
          cuda::Fp8Factors{
              .left = format_of(left.values),
              .right = format_of(right.values),
              .left_unit = left.unit.const_data_ptr<float>(),
              .right_unit = right.unit.const_data_ptr<float>(),
              .exact_sums = true},
      .left = {left.values.const_data_ptr(), left.values.size(1), false},
      .right = {right.values.const_data_ptr(), right.values.size(1), true},
      .result_element = element};
}

bool are_on_gpu(const Fp8Factor& left, const Fp8Factor& right) {
  return left.values.is_cuda() && cuda::has_kernels() &&
      left.values.is_contiguous() && right.values.is_contiguous() &&
      left.values.numel() > 0 && right.values.numel() > 0;
}

} // namespace

std::optional<at::Tensor> gpu_fp8_product(
    const Fp8Factor& left,
    const Fp8Factor& right,
    const Fp8Addends& addends,
    const Fp8Result& result) {
  const auto element = kernels::element_of(result.type);
  const auto suits = [&](const at::Tensor& addend) {
    return !addend.defined() ||
        (addend.is_contiguous() && addend.scalar_type() == result.type &&
         result.type != at::kFloat);
  };
  if (!are_on_gpu(left, right) || !element || !suits(addends.bias) ||
      !suits(addends.matrix)) {
    return std::nullopt;
  }
  const std::array<c10::IValue, 3> inputs{
      left.values,
      right.values,
      addends.bias};
  RECORD_FUNCTION("cairn::fp8_product", inputs);
  cuda::Product product = described(left, right, *element);
  const at::Tensor made = at::empty(
      {product.rows, product.columns},
      left.values.options().dtype(result.type));
  product.fp8->exact_sums = result.exact_sums;
  product.result = made.mutable_data_ptr();
  if (addends.bias.defined()) {
    product.finish = cuda::Finish::add_bias;
    product.bias = addends.bias.const_data_ptr();
  }
  product.addend = data_or_null(addends.matrix);
  return start_gpu_product(product, left.values) ? std::optional(made)
                                                 : std::nullopt;
}

bool gpu_fp8_product_into(
    const at::Tensor& into,
    const Fp8Factor& left,
    const Fp8Factor& right,
    Into how) {
  const auto element = kernels::element_of(into.scalar_type());
  if (!are_on_gpu(left, right) || !element || !into.is_contiguous()) {
    return false;
  }
  const std::array<c10::IValue, 3> inputs{into, left.values, right.values};
  RECORD_FUNCTION("cairn::fp8_product_into", inputs);
  cuda::Product product = described(left, right, *element);
  product.result = into.mutable_data_ptr();
  product.add = how == Into::add;
  return start_gpu_product(product, left.values);
}

} // namespace cairn::nn
