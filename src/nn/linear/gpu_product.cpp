#include "nn/linear/gpu_product.h"

#include "base/internal/recorded_names.h"
#include "nn/linear/gpu_kernel.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <array>

namespace cairn::nn {
namespace {

namespace cuda = kernels::cuda;

/// True when the rows of the matrix, or its columns, lie densely.
bool is_factor(const at::Tensor& x) {
  return (x.stride(1) == 1 && x.stride(0) >= x.size(1)) ||
      (x.stride(0) == 1 && x.stride(1) >= x.size(0));
}

/// True when rows of 16-bit elements in memory begin at multiples of 16 bytes,
/// if the first one does.
bool has_whole_rows(const at::Tensor& x) {
  return x.stride(x.stride(1) == 1 && x.stride(0) >= x.size(1) ? 0 : 1) % 8 ==
      0;
}

/// True when the product of both may be ours. Reads no memory: ZeRO-3 brings
/// parameters there when it sees the operator. What libtorch multiplies after
/// all should be refused here: a profile would count it as both operators.
bool may_be_ours(const at::Tensor& left, const at::Tensor& right) {
  const bool recorded = at::GradMode::is_enabled() &&
      (left.requires_grad() || right.requires_grad());
  return !recorded && is_on_gpu(left) && left.dim() == 2 && right.dim() == 2 &&
      left.scalar_type() == right.scalar_type() &&
      left.scalar_type() != at::kFloat && left.device() == right.device() &&
      left.size(1) == right.size(0) && left.numel() > 0 && right.numel() > 0 &&
      is_factor(left) && is_factor(right) && has_whole_rows(left) &&
      has_whole_rows(right) && right.size(1) % 8 == 0;
}

cuda::Factor factor(const at::Tensor& x) {
  const bool transposed = x.stride(1) != 1 || x.stride(0) < x.size(1);
  return {x.const_data_ptr(), x.stride(transposed ? 1 : 0), transposed};
}

cuda::Product product_of(const at::Tensor& left, const at::Tensor& right) {
  const auto element = *kernels::element_of(left.scalar_type());
  return {
      .rows = left.size(0),
      .columns = right.size(1),
      .depth = left.size(1),
      .element = element,
      .left = factor(left),
      .right = factor(right),
      .result_element = element};
}

at::Tensor result_of(const cuda::Product& product, const at::Tensor& left) {
  return at::empty({product.rows, product.columns}, left.options());
}

/// True when `bias` has one value of the factors' type for each column.
bool is_row_to_add(const at::Tensor& bias, const at::Tensor& right) {
  return bias.dim() == 1 && bias.is_contiguous() &&
      bias.size(0) == right.size(1) && bias.device() == right.device() &&
      bias.scalar_type() == right.scalar_type();
}

/// True when `x` has the shape and type of left x right, without gaps.
bool is_like_result(
    const at::Tensor& x,
    const at::Tensor& left,
    const at::Tensor& right) {
  return x.is_contiguous() && x.scalar_type() == left.scalar_type() &&
      x.device() == left.device() && x.dim() == 2 &&
      x.size(0) == left.size(0) && x.size(1) == right.size(1);
}

} // namespace

bool start_gpu_product(const cuda::Product& product, const at::Tensor& on) {
  const c10::OptionalDeviceGuard on_gpu(on.device());
  if (!cuda::takes(product)) {
    return false;
  }
  const at::Tensor workspace = at::empty(
      {static_cast<std::int64_t>(cuda::product_workspace)},
      on.options().dtype(at::kByte));
  const auto algorithm = at::globalContext().deterministicAlgorithms()
      ? cuda::Algorithm::first
      : cuda::Algorithm::fastest;
  run_kernel(on, "product", [&](void* stream) {
    at::RecordFunction trial(at::RecordScope::FUNCTION);
    if (trial.isActive() && algorithm == cuda::Algorithm::fastest &&
        cuda::would_try(product, stream)) {
      trial.before(base::trial_operator, c10::ArrayRef<const c10::IValue>{});
    }
    return cuda::multiply(
        product,
        algorithm,
        workspace.mutable_data_ptr(),
        stream);
  });
  return true;
}

std::optional<at::Tensor> gpu_product(
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias,
    const at::Tensor& addend) {
  if (!may_be_ours(left, right) ||
      (bias.defined() && !is_row_to_add(bias, right)) ||
      (addend.defined() && !is_like_result(addend, left, right))) {
    return std::nullopt;
  }
  const std::array<c10::IValue, 3> inputs{left, right, bias};
  RECORD_FUNCTION("cairn::product", inputs);
  cuda::Product product = product_of(left, right);
  at::Tensor result = result_of(product, left);
  product.result = result.mutable_data_ptr();
  if (bias.defined()) {
    product.finish = cuda::Finish::add_bias;
    product.bias = bias.const_data_ptr();
  }
  if (addend.defined()) {
    product.addend = addend.const_data_ptr();
  }
  return start_gpu_product(product, left) ? std::optional(std::move(result))
                                          : std::nullopt;
}

bool gpu_product_into(
    const at::Tensor& into,
    const at::Tensor& left,
    const at::Tensor& right,
    Into how,
    const at::Tensor& bias) {
  const auto element = kernels::element_of(into.scalar_type());
  if (!may_be_ours(left, right) || !element || !into.is_contiguous() ||
      (bias.defined() && !is_row_to_add(bias, right)) || into.dim() != 2 ||
      into.size(0) != left.size(0) || into.size(1) != right.size(1) ||
      into.device() != left.device()) {
    return false;
  }
  const std::array<c10::IValue, 4> inputs{into, left, right, bias};
  RECORD_FUNCTION("cairn::product_into", inputs);
  cuda::Product product = product_of(left, right);
  product.result = into.mutable_data_ptr();
  product.result_element = *element;
  if (bias.defined()) {
    product.finish = cuda::Finish::add_bias;
    product.bias = bias.const_data_ptr();
  }
  product.add = how == Into::add;
  return start_gpu_product(product, left);
}

std::optional<GeluProduct> gpu_product_gelu(
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& bias) {
  if (!may_be_ours(left, right) || !bias.defined() ||
      !is_row_to_add(bias, right)) {
    return std::nullopt;
  }
  const std::array<c10::IValue, 3> inputs{left, right, bias};
  RECORD_FUNCTION("cairn::product_gelu", inputs);
  cuda::Product product = product_of(left, right);
  GeluProduct made{result_of(product, left), result_of(product, left)};
  product.finish = cuda::Finish::gelu;
  product.bias = bias.const_data_ptr();
  product.sums = made.sums.mutable_data_ptr();
  product.result = made.result.mutable_data_ptr();
  return start_gpu_product(product, left) ? std::optional(std::move(made))
                                          : std::nullopt;
}

std::optional<at::Tensor> gpu_product_gelu_gradient(
    const at::Tensor& left,
    const at::Tensor& right,
    const at::Tensor& sums) {
  if (!may_be_ours(left, right) || !is_like_result(sums, left, right)) {
    return std::nullopt;
  }
  const std::array<c10::IValue, 3> inputs{left, right, sums};
  RECORD_FUNCTION("cairn::product_gelu_gradient", inputs);
  cuda::Product product = product_of(left, right);
  at::Tensor result = result_of(product, left);
  product.finish = cuda::Finish::gelu_gradient;
  product.sums = const_cast<void*>(sums.const_data_ptr()); // read alone
  product.result = result.mutable_data_ptr();
  return start_gpu_product(product, left) ? std::optional(std::move(result))
                                          : std::nullopt;
}

} // namespace cairn::nn
