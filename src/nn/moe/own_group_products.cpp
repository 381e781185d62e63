#include "nn/moe/own_group_products.h"

#include "kernels/internal/cuda/grouped_product.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/kernel_gelu.h"
#include "nn/moe/kernel_matrix.h"

#include <ATen/ops/empty.h>

#include <cstdint>

namespace cairn::nn {
namespace {

namespace cuda = kernels::cuda;

constexpr std::int64_t unit = 8; ///< sizes of matrices are multiples of it

cuda::ProductGroups kernel_groups(
    const at::Tensor& x,
    const RowGroups& groups) {
  return {
      .rows = x.size(0),
      .groups = groups.ends.numel(),
      .ends = groups.ends.const_data_ptr<std::int32_t>()};
}

template <typename Product>
void run(const at::Tensor& x, const Product& product) {
  run_kernel(x, "products of groups", [&](void* stream) {
    return cuda::takes(product) ? cuda::multiply(product, stream)
                                : "the kernel does not take such matrices";
  });
}

/// The products of groups of `x` and their transposed weights, except for the
/// result and the last operation.
cuda::RowsProduct by_transposed(
    const at::Tensor& x,
    const at::Tensor& weight,
    const RowGroups& groups) {
  return {
      .groups = kernel_groups(x, groups),
      .columns = weight.size(1),
      .depth = weight.size(2),
      .left = x.const_data_ptr(),
      .right = weight.const_data_ptr(),
      .transposed = true};
}

cuda::RowsProduct by_weight(
    const at::Tensor& gradient,
    const at::Tensor& weight,
    const RowGroups& groups) {
  return {
      .groups = kernel_groups(gradient, groups),
      .columns = weight.size(2),
      .depth = weight.size(1),
      .left = gradient.const_data_ptr(),
      .right = weight.const_data_ptr()};
}

at::Tensor result_of(const cuda::RowsProduct& product, const at::Tensor& x) {
  return at::empty({product.groups.rows, product.columns}, x.options());
}

} // namespace

bool has_own_products(const at::Tensor& x, const at::Tensor& weight) {
  if (!weight.is_cuda() || x.scalar_type() != at::kBFloat16 ||
      weight.scalar_type() != at::kBFloat16 || weight.size(1) % unit != 0 ||
      weight.size(2) % unit != 0 || weight.numel() == 0 ||
      !cuda::has_kernels()) {
    return false;
  }
  const c10::OptionalDeviceGuard guard(weight.device());
  return cuda::has_grouped_products();
}

at::Tensor own_products(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const RowGroups& groups) {
  const at::Tensor rows = for_kernel(x);
  const at::Tensor matrices = for_kernel(weight);
  const at::Tensor addend = for_kernel(bias);
  cuda::RowsProduct product = by_transposed(rows, matrices, groups);
  at::Tensor result = result_of(product, x);
  product.result = result.mutable_data_ptr();
  if (bias.defined()) {
    product.finish = cuda::GroupFinish::add_bias;
    product.bias = addend.const_data_ptr();
  }
  run(x, product);
  return result;
}

GroupGelu own_products_gelu(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    GeluKind kind,
    const RowGroups& groups) {
  const at::Tensor rows = for_kernel(x);
  const at::Tensor matrices = for_kernel(weight);
  const at::Tensor addend = for_kernel(bias);
  cuda::RowsProduct product = by_transposed(rows, matrices, groups);
  GroupGelu made{result_of(product, x), result_of(product, x)};
  product.result = made.result.mutable_data_ptr();
  product.finish = cuda::GroupFinish::gelu;
  product.bias = data_or_null(addend);
  product.sums = made.sums.mutable_data_ptr();
  product.kind = kernel_gelu(kind);
  run(x, product);
  return made;
}

at::Tensor own_input_gradients(
    const at::Tensor& gradient,
    const at::Tensor& weight,
    const RowGroups& groups) {
  const at::Tensor rows = for_kernel(gradient);
  const at::Tensor matrices = for_kernel(weight);
  cuda::RowsProduct product = by_weight(rows, matrices, groups);
  at::Tensor result = result_of(product, gradient);
  product.result = result.mutable_data_ptr();
  run(gradient, product);
  return result;
}

GroupGeluGradients own_gelu_gradients(
    const at::Tensor& gradient,
    const at::Tensor& weight,
    const at::Tensor& sums,
    GeluKind kind,
    const RowGroups& groups) {
  const at::Tensor rows = for_kernel(gradient);
  const at::Tensor matrices = for_kernel(weight);
  const at::Tensor at_sums = for_kernel(sums);
  cuda::RowsProduct product = by_weight(rows, matrices, groups);
  GroupGeluGradients made{
      result_of(product, gradient),
      at::empty(
          {product.groups.groups, product.columns},
          gradient.options().dtype(at::kFloat))};
  const at::Tensor parts = at::empty(
      {cuda::product_parts(product.groups), product.columns},
      made.bias.options());
  product.result = made.x.mutable_data_ptr();
  product.finish = cuda::GroupFinish::gelu_gradient;
  product.sums = at_sums.mutable_data_ptr(); // only read
  product.kind = kernel_gelu(kind);
  product.parts = parts.mutable_data_ptr<float>();
  run(gradient, product);
  run_kernel(gradient, "sums of groups", [&](void* stream) {
    return cuda::sum_product_parts(
        product.groups,
        product.columns,
        product.parts,
        made.bias.mutable_data_ptr(),
        kernels::Element::fp32,
        stream);
  });
  return made;
}

bool takes_own_weight_gradients(const at::Tensor& into) {
  return into.is_contiguous() && is_at_sixteen(into) &&
      (into.scalar_type() == at::kFloat || into.scalar_type() == at::kBFloat16);
}

void own_weight_gradients_into(
    const at::Tensor& into,
    const at::Tensor& gradient,
    const at::Tensor& x,
    const RowGroups& groups,
    bool add) {
  const at::Tensor left = for_kernel(gradient);
  const at::Tensor right = for_kernel(x);
  run(into,
      cuda::WeightsProduct{
          .groups = kernel_groups(left, groups),
          .out = into.size(1),
          .in = into.size(2),
          .left = left.const_data_ptr(),
          .right = right.const_data_ptr(),
          .result = into.mutable_data_ptr(),
          .element = *kernels::element_of(into.scalar_type()),
          .add = add});
}

} // namespace cairn::nn
