#pragma once

#include <cairn/checkpoint/lazy_tensor.h>

#include <cstdint>
#include <span>
#include <vector>

// Tensors made of others when they are loaded. Shapes must fit: who calls has
// checked what came from a file.

namespace cairn::checkpoints {

/// Of a matrix; a vector stays as it is.
LazyTensor transposed(LazyTensor tensor);

/// [begin, end) of a dimension.
LazyTensor sliced(
    LazyTensor tensor,
    std::int64_t dim,
    std::int64_t begin,
    std::int64_t end);

/// Rows [begin, end), where rows past the last one repeat it.
LazyTensor rows_repeating_last(
    LazyTensor tensor,
    std::int64_t begin,
    std::int64_t end);

/// One after the other along a dimension.
LazyTensor joined(std::vector<LazyTensor> parts, std::int64_t dim);

/// Rows of several tensors, group by group: the first group's rows of each
/// part, the second group's of each, … . Every part has `groups` equal groups.
LazyTensor interleaved(std::vector<LazyTensor> parts, std::int64_t groups);

/// The other way: of `parts`, each so many rows per group, the one at `index`.
LazyTensor deinterleaved(
    LazyTensor tensor,
    std::int64_t groups,
    std::vector<std::int64_t> parts,
    std::size_t index);

} // namespace cairn::checkpoints
