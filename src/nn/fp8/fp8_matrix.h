#pragma once

#include "nn/linear/gelu.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/layer.h>

#include <optional>

namespace cairn::nn {

// Matrices of eight-bit floats. One unit for the whole matrix brings it into
// the range of the format. It is made from the matrix's largest value when it
// is rounded ("current" or "tensorwise" scaling), or known before ("delayed"
// scaling, fp8_history.h). Without autograd.

/// A factor of an fp8 product: an element stands for its value times the unit.
struct Fp8Factor {
  at::Tensor values; ///< [rows, depth], in one of libtorch's fp8 types
  at::Tensor unit;   ///< one float
};

/// A matrix in fp8, in one or both orders. Products read along rows, so that a
/// gradient needs the transposed matrix.
struct Fp8Matrix {
  at::Tensor rows;    ///< [rows, columns]; undefined where not wanted
  at::Tensor columns; ///< [columns, rows]; undefined where not wanted
  at::Tensor unit;

  Fp8Factor by_rows() const { return {rows, unit}; }
  Fp8Factor by_columns() const { return {columns, unit}; }
};

enum class Fp8Order { rows, columns, both };

/// The values that become fp8: a matrix, what an activation makes of it, or the
/// gradient of such an activation. Tensors that a kind of values does not need
/// are undefined.
struct Fp8Values {
  at::Tensor matrix;
  /// Values are gelu(matrix), or with `sums` its gradient, where `matrix` is
  /// the gradient of gelu(sums).
  std::optional<GeluKind> gelu{};
  /// Without GELU, values are matrix * silu(sums).
  at::Tensor sums{};
  /// Values are matrix * other * (the slope of silu at sums).
  at::Tensor other{};
};

/// The type of activations and weights, whatever the format.
inline constexpr at::ScalarType fp8_of_values = at::kFloat8_e4m3fn;

/// The type of gradients.
constexpr at::ScalarType fp8_of_gradients(Fp8Format format) {
  return format == Fp8Format::hybrid ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
}

/// The largest number of an fp8 type.
constexpr double fp8_limit(at::ScalarType type) {
  return type == at::kFloat8_e5m2 ? 57344 : 448;
}

/// What is known about the range of a matrix before it is rounded, and what is
/// to be noted about it.
struct Fp8Scale {
  /// Values beyond the range that this unit gives become the largest number.
  /// Undefined: the unit is made from the matrix's largest value.
  at::Tensor unit{};
  /// One float that is raised to the largest absolute value of the matrix.
  /// Undefined: nothing is noted.
  at::Tensor largest{};
};

/// True when an fp8 product takes matrices of these sizes: a GPU reads 16
/// elements at once.
constexpr bool fp8_takes(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return rows > 0 && rows % 16 == 0 && in % 16 == 0 && out % 16 == 0;
}

/// The orders in which the input of a layer with this weight is needed: the
/// gradient of the weight reads it by columns.
inline Fp8Order order_of_input(const at::Tensor& weight) {
  return weight.requires_grad() ? Fp8Order::both : Fp8Order::rows;
}

/// The rows of `x` as one matrix without gaps, as the kernels take it.
inline at::Tensor dense_rows(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)}).contiguous();
}

Fp8Matrix to_fp8(
    const Fp8Values& values,
    at::ScalarType type,
    Fp8Order order,
    const Fp8Scale& scale = {});

/// The input of a layer in fp8: as somebody has rounded it (by rows; undefined
/// if nobody has), or rounded now.
Fp8Matrix input_to_fp8(
    const at::Tensor& x,
    const Fp8Factor& rounded,
    const at::Tensor& weight,
    const Fp8Scale& scale);

/// Rounds a matrix to memory that is there: to rows, columns or both.
void to_fp8_into(
    const Fp8Matrix& room,
    const at::Tensor& matrix,
    const Fp8Scale& scale);

/// The rows of a layer's input that its backward pass needs: those of which it
/// makes columns, if the weight trains and there are none.
inline at::Tensor rows_to_keep(
    const Fp8Matrix& input,
    const at::Tensor& weight) {
  return input.columns.defined() || !weight.requires_grad() ? at::Tensor()
                                                            : input.rows;
}

/// The columns of a matrix that may have been rounded by rows only.
Fp8Factor columns_of(const Fp8Matrix& matrix);

/// The columns of a weight that the forward pass has rounded with this unit: as
/// it has kept them, or rounded again if it has not.
Fp8Factor weight_columns(
    const at::Tensor& weight,
    const at::Tensor& unit,
    const at::Tensor& columns);

/// A gradient in both orders, and its sums over the rows.
struct Fp8Gradient {
  Fp8Matrix matrix;
  /// Gradient of the bias. Undefined without one, or where it was written to a
  /// place of its own (kernels::gradient_place).
  at::Tensor bias;
};

/// Rounds the gradient of a sum, of which `bias` (may be undefined) was a part.
Fp8Gradient gradient_to_fp8(
    const Fp8Values& gradient,
    at::ScalarType type,
    const at::Tensor& bias,
    const Fp8Scale& scale = {});

} // namespace cairn::nn
