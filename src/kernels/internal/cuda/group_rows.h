#pragma once

#include "kernels/internal/cuda/column_sums.h"

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// Rows of a matrix in groups, such as the tokens of each expert. Where the
// groups end is known to the GPU alone. See cuda.h for what pointers, streams
// and results are.

/// A matrix whose rows follow each other without a gap. Rows after the last
/// group belong to nobody.
struct GroupedRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t groups = 0;
  const std::int32_t* ends = nullptr; ///< one for each group
  Element element = Element::bf16;
};

/// Adds its group's bias, one of [groups, columns], to each row of `x`.
[[nodiscard]] const char* add_group_biases(
    const GroupedRows& rows,
    const void* biases,
    void* x,
    void* stream);

/// Adds the biases as well, unless they are null, and writes GELU of the sums
/// to `y`.
[[nodiscard]] const char* add_group_biases_gelu(
    const GroupedRows& rows,
    Gelu kind,
    const void* biases,
    void* x,
    void* y,
    void* stream);

/// Number of parts in which the rows of each group are summed. It depends on
/// the shape alone, and so does the order of additions in a group.
std::int64_t group_parts(const GroupedRows& rows);

/// Writes the sums of the parts of each group, [groups, group_parts, columns].
[[nodiscard]] const char* group_sums(
    const GroupedRows& rows,
    const void* x,
    float* parts,
    void* stream);

/// Multiplies `gradient` by GELU'(x), in place, and writes the sums of its
/// parts as group_sums() does.
[[nodiscard]] const char* group_gelu_backward(
    const GroupedRows& rows,
    Gelu kind,
    const void* x,
    void* gradient,
    float* parts,
    void* stream);

} // namespace cairn::kernels::cuda
