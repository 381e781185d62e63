#include "nn/fp8/fp8_matrix.h"

#include "kernels/internal/cuda/fp8.h"
#include "nn/linear/column_sums.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/kernel_gelu.h"
#include "nn/linear/summed_parts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/record_function.h>
#include <cairn/base/error.h>

#include <array>
#include <limits>

namespace cairn::nn {
namespace {

namespace cuda = kernels::cuda;

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
      x.size(1) % 16 == 0 && (!values.sums.defined() || suits(values.sums)) &&
      (!values.other.defined() || suits(values.other));
}

using Of = cuda::Fp8Source::Of;

Of kind_of(const Fp8Values& values) {
  if (values.gelu) {
    return values.sums.defined() ? Of::gelu_gradient : Of::gelu;
  }
  return values.other.defined() ? Of::silu_gradient
      : values.sums.defined()   ? Of::silu_product
                                : Of::matrix;
}

cuda::Fp8Source source_of(const Fp8Values& values) {
  const at::Tensor& x = values.matrix;
  return {
      .shape = {x.size(0), x.size(1), *kernels::element_of(x.scalar_type())},
      .matrix = x.const_data_ptr(),
      .of = kind_of(values),
      .gelu = kernel_gelu(values.gelu.value_or(GeluKind::tanh)),
      .sums = data_or_null(values.sums),
      .other = data_or_null(values.other)};
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

/// Rounds by our kernels to `made`. The unit is computed if the scale has none.
void round_by_kernel(
    const Fp8Matrix& made,
    const Fp8Values& values,
    const Fp8Scale& scale,
    const at::Tensor& sums) {
  const at::Tensor& x = values.matrix;
  const at::ScalarType type =
      (made.rows.defined() ? made.rows : made.columns).scalar_type();
  const cuda::Fp8Source source = source_of(values);
  at::Tensor parts;
  if (!scale.unit.defined()) {
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
         .column_sums = floats_or_null(sums),
         .largest = floats_or_null(scale.largest)},
        stream);
  });
}

Fp8Matrix rounded_by_kernel(
    const Fp8Values& values,
    at::ScalarType type,
    Fp8Order order,
    const Fp8Scale& scale,
    const at::Tensor& sums) {
  Fp8Matrix made = room_for(values.matrix, type, order, scale.unit);
  round_by_kernel(made, values, scale, sums);
  return made;
}

/// The values in float, by libtorch.
at::Tensor computed(const Fp8Values& values) {
  const at::Tensor x = values.matrix.to(at::kFloat);
  const char* const form = values.gelu == GeluKind::exact ? "none" : "tanh";
  switch (kind_of(values)) {
    case Of::matrix:
      return x;
    case Of::gelu:
      return at::gelu(x, form);
    case Of::gelu_gradient:
      return at::gelu_backward(x, values.sums.to(at::kFloat), form);
    case Of::silu_product:
      return x * at::silu(values.sums.to(at::kFloat));
    case Of::silu_gradient:
      return at::silu_backward(
          x * values.other.to(at::kFloat),
          values.sums.to(at::kFloat));
  }
  throw InternalError({.what = "unknown values for fp8"});
}

/// Raises a number to the largest finite absolute value of x.
void note_largest(const at::Tensor& number, const at::Tensor& x) {
  const at::Tensor size = x.abs();
  const at::Tensor found =
      at::where(at::isfinite(size), size, at::zeros_like(size)).max();
  at::Tensor(number).copy_(at::maximum(number, found.view({1})));
}

/// Rounds by libtorch, as the kernels do; their unit for gradients of GELU is a
/// little larger.
Fp8Matrix rounded_by_libtorch(
    const at::Tensor& x,
    at::ScalarType type,
    Fp8Order order,
    const Fp8Scale& scale) {
  const double limit = fp8_limit(type);
  constexpr double least = 1e-30;
  Fp8Matrix made{.unit = scale.unit};
  if (scale.largest.defined()) {
    note_largest(scale.largest, x);
  }
  if (!made.unit.defined()) {
    const at::Tensor most = x.abs().max().view({1});
    made.unit = at::where(most < least, at::ones_like(most), most / limit);
  }
  // Infinite values must show, so they do not become the largest number.
  const at::Tensor held = at::where(
      at::isinf(x),
      at::full_like(x, std::numeric_limits<double>::quiet_NaN()),
      (x / made.unit).clamp(-limit, limit));
  const at::Tensor rounded = held.to(type).contiguous();
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
    const Fp8Scale& scale) {
  const std::array<c10::IValue, 2> inputs{values.matrix, values.sums};
  RECORD_FUNCTION("cairn::to_fp8", inputs);
  return has_kernel(values)
      ? rounded_by_kernel(values, type, order, scale, {})
      : rounded_by_libtorch(computed(values), type, order, scale);
}

} // namespace

Fp8Matrix to_fp8(
    const Fp8Values& values,
    at::ScalarType type,
    Fp8Order order,
    const Fp8Scale& scale) {
  return rounded(values, type, order, scale);
}

void to_fp8_into(
    const Fp8Matrix& room,
    const at::Tensor& matrix,
    const Fp8Scale& scale) {
  const std::array<c10::IValue, 1> inputs{matrix};
  RECORD_FUNCTION("cairn::to_fp8", inputs);
  if (has_kernel({matrix})) {
    round_by_kernel(room, {matrix}, scale, {});
    return;
  }
  // Another version counter: a pass before may have kept the same values.
  const auto write = [](const at::Tensor& to, const at::Tensor& from) {
    if (to.defined()) {
      to.variable_data().copy_(from);
    }
  };
  const at::Tensor& like = room.rows.defined() ? room.rows : room.columns;
  const Fp8Matrix made = rounded_by_libtorch(
      matrix.to(at::kFloat),
      like.scalar_type(),
      Fp8Order::both,
      scale);
  write(room.rows, made.rows);
  write(room.columns, made.columns);
  write(room.unit, made.unit);
}

Fp8Matrix input_to_fp8(
    const at::Tensor& x,
    const Fp8Factor& rounded,
    const at::Tensor& weight,
    const Fp8Scale& scale) {
  return rounded.values.defined()
      ? Fp8Matrix{.rows = rounded.values, .columns = {}, .unit = rounded.unit}
      : to_fp8({dense_rows(x)}, fp8_of_values, order_of_input(weight), scale);
}

Fp8Factor columns_of(const Fp8Matrix& matrix) {
  if (matrix.columns.defined()) {
    return matrix.by_columns();
  }
  const at::Tensor& rows = matrix.rows;
  if (!rows.is_cuda() || !cuda::has_kernels()) {
    return {rows.t().contiguous(), matrix.unit};
  }
  at::Tensor columns = at::empty({rows.size(1), rows.size(0)}, rows.options());
  run_kernel(rows, "transposing fp8", [&](void* stream) {
    return cuda::transpose_fp8(
        rows.size(0),
        rows.size(1),
        rows.const_data_ptr(),
        columns.mutable_data_ptr(),
        stream);
  });
  return {std::move(columns), matrix.unit};
}

Fp8Factor weight_columns(
    const at::Tensor& weight,
    const at::Tensor& unit,
    const at::Tensor& columns) {
  return columns.defined()
      ? Fp8Factor{columns, unit}
      : to_fp8({weight}, fp8_of_values, Fp8Order::columns, {.unit = unit})
            .by_columns();
}

Fp8Gradient gradient_to_fp8(
    const Fp8Values& gradient,
    at::ScalarType type,
    const at::Tensor& bias,
    const Fp8Scale& scale) {
  if (!bias.defined()) {
    return {to_fp8(gradient, type, Fp8Order::both, scale), {}};
  }
  if (!has_kernel(gradient)) {
    const at::Tensor values = computed(gradient);
    return {
        rounded_by_libtorch(values, type, Fp8Order::both, scale),
        bias_gradient(bias, values.to(gradient.matrix.scalar_type()))};
  }
  const at::Tensor& x = gradient.matrix;
  const at::Tensor sums = at::empty(
      {cuda::fp8_sum_parts(source_of(gradient).shape), x.size(1)},
      x.options().dtype(at::kFloat));
  Fp8Matrix made =
      rounded_by_kernel(gradient, type, Fp8Order::both, scale, sums);
  return {std::move(made), summed_parts(sums, bias)};
}

} // namespace cairn::nn
