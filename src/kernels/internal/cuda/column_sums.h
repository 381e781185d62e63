#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// Sums over the rows of a matrix, such as the gradients of biases. See cuda.h
// for what pointers, streams and results are.

/// A matrix whose rows follow each other without a gap.
struct MatrixShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Element element = Element::bf16;
};

/// Number of groups of rows that are summed apart. It depends on the shape
/// alone, and so does the order of additions.
std::int64_t column_parts(const MatrixShape& shape);

/// Writes the sums of each group of rows, [column_parts, columns];
/// sum_of_parts() adds them up.
[[nodiscard]] const char* column_sums(
    const MatrixShape& shape,
    const void* matrix,
    float* parts,
    void* stream);

/// The two definitions of GELU: with the error function, or by tanh.
enum class Gelu : std::uint8_t { exact, tanh };

/// Writes gradient * GELU'(x) to `of_x`, and its column sums to `parts`. `of_x`
/// may be `gradient`.
[[nodiscard]] const char* gelu_backward(
    const MatrixShape& shape,
    Gelu kind,
    const void* gradient,
    const void* x,
    void* of_x,
    float* parts,
    void* stream);

/// Adds up [count, columns] to [columns], to which the old values are added if
/// `add`.
[[nodiscard]] const char* sum_of_parts(
    const float* parts,
    std::int64_t count,
    std::int64_t columns,
    void* to,
    Element element,
    bool add,
    void* stream);

} // namespace cairn::kernels::cuda
