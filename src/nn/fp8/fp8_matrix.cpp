#include "nn/fp8/fp8_matrix.h"

#include "kernels/internal/cuda/fp8.h"
#include "nn/linear/column_sums.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/summed_parts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/record_function.h>

#include <array>

namespace cairn::nn {
namespace {

namespace cuda = kernels::cuda;

float* floats_or_null(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<float>() : nullptr;
}

void* bytes_or_null(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr() : nullptr;
}

/// True when our kernels round these values.
bool has_kernel(const Fp8Values& values) {
  const at::Tensor& x = values.matrix;
  const auto suits = [&](const at::Tensor& each) {
    return has_row_kernels(each) && each.dim() == 2 &&
        each.scalar_type() == x.scalar_type() && each.storage_offset() % 8 == 0;
  };
  return suits(x) && x.scalar_type() != at::kFloat && x.size(0) % 16 == 0 &&
      x.size(1) % 16 == 0 && (!values.sums.defined() || suits(values.sums));
}

cuda::Fp8Source source_of(const Fp8Values& values) {
  using Of = cuda::Fp8Source::Of;
  const at::Tensor& x = values.matrix;
  return {
      .shape = {x.size(0), x.size(1), *kernels::element_of(x.scalar_type())},
      .matrix = x.const_data_ptr(),
      .of = values.sums.defined() ? Of::gelu_gradient
          : values.gelu           ? Of::gelu
                                  : Of::matrix,
      .gelu =
          values.gelu == GeluKind::exact ? cuda::Gelu::exact : cuda::Gelu::tanh,
      .sums = data_or_null(values.sums)};
}

/// Tensors for a matrix in the wanted orders.
Fp8Matrix room_for(
    const at::Tensor& like,
    at::ScalarType type,
    Fp8Order order,
    const at::Tensor& unit) {
  const auto options = like.options().dtype(type);
  Fp8Matrix room;
  if (order != Fp8Order::columns) {
    room.rows = at::empty({like.size(0), like.size(1)}, options);
  }
  if (order != Fp8Order::rows) {
    room.columns = at::empty({like.size(1), like.size(0)}, options);
  }
  room.unit =
      unit.defined() ? unit : at::empty({1}, like.options().dtype(at::kFloat));
  return room;
}

/// Rounds by our kernels. `unit` is computed if it is undefined.
Fp8Matrix rounded_by_kernel(
    const Fp8Values& values,
    at::ScalarType type,
    Fp8Order order,
    const at::Tensor& unit,
    const at::Tensor& sums) {
  const at::Tensor& x = values.matrix;
  Fp8Matrix made = room_for(x, type, order, unit);
  const cuda::Fp8Source source = source_of(values);
  at::Tensor parts;
  if (!unit.defined()) {
    parts = at::empty(
        {cuda::largest_count(source.shape)},
        x.options().dtype(at::kFloat));
    run_kernel(x, "largest value", [&](void* stream) {
      return cuda::largest_parts(source, floats_or_null(parts), stream);
    });
  }
  run_kernel(x, "rounding to fp8", [&](void* stream) {
    return cuda::to_fp8(
        source,
        floats_or_null(parts),
        {.format = type == at::kFloat8_e5m2 ? cuda::Fp8::e5m2 : cuda::Fp8::e4m3,
         .rows = bytes_or_null(made.rows),
         .columns = bytes_or_null(made.columns),
         .unit = floats_or_null(made.unit),
         .column_sums = floats_or_null(sums)},
        stream);
  });
  return made;
}

/// The values in float, by libtorch.
at::Tensor computed(const Fp8Values& values) {
  const at::Tensor x = values.matrix.to(at::kFloat);
  if (!values.gelu) {
    return x;
  }
  const char* const form = *values.gelu == GeluKind::exact ? "none" : "tanh";
  return values.sums.defined()
      ? at::gelu_backward(x, values.sums.to(at::kFloat), form)
      : at::gelu(x, form);
}

/// Rounds by libtorch, as the kernels do; their unit for gradients of GELU is a
/// little larger.
Fp8Matrix rounded_by_libtorch(
    const at::Tensor& x,
    at::ScalarType type,
    Fp8Order order,
    const at::Tensor& unit) {
  const double limit = type == at::kFloat8_e5m2 ? 57344 : 448;
  constexpr double least = 1e-30;
  Fp8Matrix made{.unit = unit};
  if (!unit.defined()) {
    const at::Tensor most = x.abs().max().view({1});
    made.unit = at::where(most < least, at::ones_like(most), most / limit);
  }
  const at::Tensor rounded =
      (x / made.unit).clamp(-limit, limit).to(type).contiguous();
  if (order != Fp8Order::columns) {
    made.rows = rounded;
  }
  if (order != Fp8Order::rows) {
    made.columns = rounded.t().contiguous();
  }
  return made;
}

Fp8Matrix rounded(
    const Fp8Values& values,
    at::ScalarType type,
    Fp8Order order,
    const at::Tensor& unit) {
  const std::array<c10::IValue, 2> inputs{values.matrix, values.sums};
  RECORD_FUNCTION("cairn::to_fp8", inputs);
  return has_kernel(values)
      ? rounded_by_kernel(values, type, order, unit, {})
      : rounded_by_libtorch(computed(values), type, order, unit);
}

} // namespace

Fp8Matrix to_fp8(const Fp8Values& values, at::ScalarType type, Fp8Order order) {
  return rounded(values, type, order, {});
}

Fp8Matrix to_fp8_again(
    const at::Tensor& matrix,
    const at::Tensor& unit,
    at::ScalarType type,
    Fp8Order order) {
  return rounded({matrix}, type, order, unit);
}

Fp8Gradient gradient_to_fp8(
    const Fp8Values& gradient,
    at::ScalarType type,
    const at::Tensor& bias) {
  if (!bias.defined()) {
    return {to_fp8(gradient, type, Fp8Order::both), {}};
  }
  if (!has_kernel(gradient)) {
    const at::Tensor values = computed(gradient);
    return {
        rounded_by_libtorch(values, type, Fp8Order::both, {}),
        bias_gradient(bias, values.to(gradient.matrix.scalar_type()))};
  }
  const at::Tensor& x = gradient.matrix;
  const at::Tensor sums = at::empty(
      {cuda::fp8_sum_parts(source_of(gradient).shape), x.size(1)},
      x.options().dtype(at::kFloat));
  Fp8Matrix made = rounded_by_kernel(gradient, type, Fp8Order::both, {}, sums);
  return {std::move(made), summed_parts(sums, bias)};
}

} // namespace cairn::nn
