#pragma once

#include "kernels/internal/cuda/column_sums.h"

#include <cstdint>

namespace cairn::kernels::cuda {

// Matrices of eight-bit numbers, as fp8 products read them. See cuda.h for what
// pointers, streams and results are.

/// Formats of eight bits: e4m3 has more digits, e5m2 a wider range.
enum class Fp8 : std::uint8_t { e4m3, e5m2 };

/// The values that become fp8.
struct Fp8Source {
  enum class Of : std::uint8_t {
    matrix,
    gelu,          ///< GELU of the matrix
    gelu_gradient, ///< the matrix times GELU's slope at `sums`
    /// The matrix times silu(`sums`): SwiGLU, where the matrix is `up` and
    /// `sums` the gate; and the gradient of `up`, where the matrix is that of
    /// SwiGLU.
    silu_product,
    /// The matrix times `other` times silu's slope at `sums`: the gradient of
    /// SwiGLU's gate, where `other` is `up`.
    silu_gradient,
  };

  /// Rows and columns are multiples of 16, and elements have 16 bits.
  MatrixShape shape;
  const void* matrix = nullptr;
  Of of = Of::matrix;
  Gelu gelu = Gelu::tanh;
  /// Matrices of the same shape, null where they are not used.
  const void* sums = nullptr;
  const void* other = nullptr;
};

/// A matrix in fp8. An element stands for its value times `unit`.
struct Fp8Target {
  Fp8 format = Fp8::e4m3;
  void* rows = nullptr;         ///< [rows, columns]; may be null
  void* columns = nullptr;      ///< [columns, rows], transposed; may be null
  float* unit = nullptr;        ///< one float
  float* column_sums = nullptr; ///< [fp8_sum_parts, columns]; may be null
  /// One float, not negative: it is raised to the largest absolute value of the
  /// source that is finite. May be null.
  float* largest = nullptr;
};

/// Number of floats that largest_parts() writes.
std::int64_t largest_count(const MatrixShape& shape);

/// Number of groups of rows whose column sums to_fp8() writes.
std::int64_t fp8_sum_parts(const MatrixShape& shape);

/// Writes the largest absolute values of parts of the source; for gradients of
/// GELU a little more than that.
[[nodiscard]] const char* largest_parts(
    const Fp8Source& source,
    float* parts,
    void* stream);

/// Rounds the source to fp8. The unit is written so that the largest of
/// `parts`, as largest_parts() made them, is the format's largest number.
/// Without `parts` the unit that is there is used: values beyond the format's
/// range become its largest number, and infinite ones show as "not a number"
/// in the same row and column, or in ones nearby.
[[nodiscard]] const char* to_fp8(
    const Fp8Source& source,
    const float* parts,
    const Fp8Target& target,
    void* stream);

/// Writes a matrix [rows, columns] of fp8 as [columns, rows]. Both are
/// multiples of 16.
[[nodiscard]] const char* transpose_fp8(
    std::int64_t rows,
    std::int64_t columns,
    const void* from,
    void* to,
    void* stream);

} // namespace cairn::kernels::cuda
