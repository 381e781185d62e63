#include "nn/linear/normalized_rows.h"

#include "kernels/internal/cuda/column_sums.h"
#include "kernels/internal/cuda/norm_rows.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/summed_parts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/record_function.h>

#include <array>
#include <tuple>

namespace cairn::nn {
namespace {

namespace cuda = kernels::cuda;

/// True when the GPU's kernels take x, which may be read in vectors then.
bool is_packed(const at::Tensor& x) {
  return has_row_kernels(x) &&
      reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

/// True when the GPU's kernels take x with these parameters. (Parameters begin
/// where vectors can be read, in memory of their own and in buckets.)
bool has_kernel(const at::Tensor& x, const NormParameters& norm) {
  const auto fits = [&](const at::Tensor& parameter) {
    return parameter.scalar_type() == x.scalar_type() &&
        parameter.numel() == x.size(-1);
  };
  return is_packed(x) && fits(norm.weight) &&
      (!norm.bias.defined() || fits(norm.bias)) &&
      x.size(-1) <= cuda::most_norm_columns(x.size(-1));
}

cuda::NormRows rows_of(const at::Tensor& x, const NormParameters& norm) {
  return {
      .rows = x.numel() / x.size(-1),
      .columns = x.size(-1),
      .element = *kernels::element_of(x.scalar_type()),
      .centred = norm.bias.defined(),
      .epsilon = static_cast<float>(norm.epsilon)};
}

cuda::NormStatistics statistics_of(const NormalizedRows& rows) {
  return {
      rows.mean.defined() ? rows.mean.mutable_data_ptr<float>() : nullptr,
      rows.inverse.mutable_data_ptr<float>()};
}

void* bytes_of(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr() : nullptr;
}

/// True when the kernel rounds the norm of x itself.
bool rounds(const at::Tensor& x) {
  return x.scalar_type() != at::kFloat && x.size(-1) % 8 == 0;
}

NormalizedRows forward_on_gpu(
    const at::Tensor& x,
    const at::Tensor& branch,
    const NormParameters& norm,
    const Fp8Scale& scale) {
  const std::array<c10::IValue, 3> inputs{x, norm.weight, norm.bias};
  RECORD_FUNCTION("cairn::norm", inputs);
  const cuda::NormRows shape = rows_of(x, norm);
  const auto floats = x.options().dtype(at::kFloat);
  NormalizedRows rows{
      .sum = branch.defined() ? at::empty_like(x) : x,
      .mean = shape.centred ? at::empty({shape.rows}, floats) : at::Tensor(),
      .inverse = at::empty({shape.rows}, floats)};
  if (scale.unit.defined()) {
    rows.rounded = at::empty(
        {shape.rows, shape.columns},
        x.options().dtype(fp8_of_values));
  } else {
    rows.normal = at::empty_like(x);
  }
  run_kernel(x, "norm", [&](void* stream) {
    return cuda::norm_forward(
        shape,
        {.x = x.const_data_ptr(),
         .added = data_or_null(branch),
         .gamma = norm.weight.const_data_ptr(),
         .beta = data_or_null(norm.bias),
         .sum = branch.defined() ? rows.sum.mutable_data_ptr() : nullptr,
         .y = bytes_of(rows.normal),
         .rounded = bytes_of(rows.rounded),
         .unit = floats_or_null(scale.unit),
         .largest = floats_or_null(scale.largest),
         .statistics = statistics_of(rows)},
        stream);
  });
  return rows;
}

NormGradients backward_on_gpu(
    const at::Tensor& gradient,
    const at::Tensor& through,
    const NormalizedRows& rows,
    const NormParameters& norm) {
  const std::array<c10::IValue, 3> inputs{gradient, norm.weight, norm.bias};
  RECORD_FUNCTION("cairn::norm_backward", inputs);
  const c10::OptionalDeviceGuard on_gpu(gradient.device()); // for norm_parts()
  const cuda::NormRows shape = rows_of(rows.sum, norm);
  const auto parts = [&] {
    return at::empty(
        {cuda::norm_parts(shape), shape.columns},
        gradient.options().dtype(at::kFloat));
  };
  const at::Tensor of_x = at::empty_like(rows.sum);
  const at::Tensor gamma_parts = parts();
  const at::Tensor beta_parts = shape.centred ? parts() : at::Tensor();
  run_kernel(gradient, "norm backward", [&](void* stream) {
    return cuda::norm_backward(
        shape,
        {.gradient = gradient.const_data_ptr(),
         .through = data_or_null(through),
         .x = rows.sum.const_data_ptr(),
         .gamma = norm.weight.const_data_ptr(),
         .statistics = statistics_of(rows),
         .of_x = of_x.mutable_data_ptr(),
         .gamma_parts = gamma_parts.mutable_data_ptr<float>(),
         .beta_parts = floats_or_null(beta_parts)},
        stream);
  });
  NormGradients gradients{.x = of_x};
  if (norm.weight.requires_grad()) {
    gradients.weight = summed_parts(gamma_parts, norm.weight);
  }
  if (norm.bias.defined() && norm.bias.requires_grad()) {
    gradients.bias = summed_parts(beta_parts, norm.bias);
  }
  return gradients;
}

/// The rows with their norm rounded, if the scale has a unit.
NormalizedRows rounded_rows(NormalizedRows rows, const Fp8Scale& scale) {
  if (scale.unit.defined() && !rows.rounded.defined()) {
    rows.rounded =
        to_fp8({dense_rows(rows.normal)}, fp8_of_values, Fp8Order::rows, scale)
            .rows;
    rows.normal.reset();
  }
  return rows;
}

} // namespace

bool normalizes_rows(const at::Tensor& x, const NormParameters& norm) {
  return norm.bias.defined() || has_kernel(x, norm);
}

NormalizedRows normalize_rows(
    const at::Tensor& x,
    const at::Tensor& branch,
    const NormParameters& norm,
    const Fp8Scale& scale) {
  const bool fits = !branch.defined() ||
      (is_packed(branch) && branch.sizes() == x.sizes() &&
       branch.scalar_type() == x.scalar_type());
  const Fp8Scale by_kernel = rounds(x) ? scale : Fp8Scale();
  if (has_kernel(x, norm) && fits) {
    return rounded_rows(forward_on_gpu(x, branch, norm, by_kernel), scale);
  }
  const at::Tensor sum = branch.defined() ? x + branch : x;
  if (has_kernel(sum, norm)) {
    return rounded_rows(forward_on_gpu(sum, {}, norm, by_kernel), scale);
  }
  auto [normal, mean, inverse] = at::native_layer_norm(
      sum,
      norm.weight.sizes(),
      norm.weight,
      norm.bias,
      norm.epsilon);
  return rounded_rows(
      {.sum = sum, .normal = normal, .mean = mean, .inverse = inverse},
      scale);
}

NormGradients normalize_rows_backward(
    const at::Tensor& gradient,
    const at::Tensor& through,
    const NormalizedRows& rows,
    const NormParameters& norm) {
  if (has_kernel(rows.sum, norm)) {
    const auto packed = [&](const at::Tensor& x) {
      if (!x.defined()) {
        return x;
      }
      const at::Tensor typed = x.to(rows.sum.scalar_type()).contiguous();
      return is_packed(typed) ? typed : typed.clone();
    };
    return backward_on_gpu(packed(gradient), packed(through), rows, norm);
  }
  NormGradients gradients;
  std::tie(gradients.x, gradients.weight, gradients.bias) =
      at::native_layer_norm_backward(
          gradient,
          rows.sum,
          norm.weight.sizes(),
          rows.mean,
          rows.inverse,
          norm.weight,
          norm.bias,
          {true, norm.weight.requires_grad(), norm.bias.requires_grad()});
  if (through.defined()) {
    gradients.x.add_(through);
  }
  return gradients;
}

} // namespace cairn::nn
