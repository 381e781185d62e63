#pragma once

#include <cairn/checkpoints/lazy_tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

// Tensors made from other tensors while these are read; none is held twice.
// Shapes must fit: the caller has checked values from a file.

namespace cairn::checkpoints {

/// Some rows of one of several tensors.
struct RowRun {
  std::size_t part = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// The runs of rows one after the other, in the first part's type.
LazyTensor gathered(std::vector<LazyTensor> parts, std::vector<RowRun> runs);

/// The tensor with every stretch of rows changed by a function that keeps the
/// number of rows.
LazyTensor changed(
    LazyTensor tensor,
    at::ScalarType type,
    std::vector<std::int64_t> shape,
    std::function<at::Tensor(at::Tensor)> change);

/// The transposed matrix; a vector stays as it is.
LazyTensor transposed(LazyTensor tensor);

/// The part [begin, end) of a dimension.
LazyTensor sliced(
    LazyTensor tensor,
    std::int64_t dim,
    std::int64_t begin,
    std::int64_t end);

/// Elements [begin, end), as a vector.
LazyTensor elements(
    const LazyTensor& tensor,
    std::int64_t begin,
    std::int64_t end);

/// The elements in another shape; `tensor` is a vector.
LazyTensor reshaped(LazyTensor tensor, std::vector<std::int64_t> shape);

/// Rows [begin, end), where rows past the last one repeat it.
LazyTensor rows_repeating_last(
    LazyTensor tensor,
    std::int64_t begin,
    std::int64_t end);

/// The tensor with rows of zeros behind its own, up to that number of rows.
LazyTensor rows_then_zeros(LazyTensor tensor, std::int64_t rows);

/// The parts one after the other along a dimension.
LazyTensor joined(std::vector<LazyTensor> parts, std::int64_t dim);

/// The parts as rows of a tensor with one more dimension.
LazyTensor stacked(std::vector<LazyTensor> parts);

/// Row `index`, without the first dimension.
LazyTensor row_of(LazyTensor tensor, std::int64_t index);

/// Rows of several tensors, group by group: the first group's rows of each
/// part, the second group's of each, … . Every part has `groups` equal groups.
LazyTensor interleaved(std::vector<LazyTensor> parts, std::int64_t groups);

/// The reverse of interleaved(): the part at `index`. `parts` has the number of
/// rows of each part in one group.
LazyTensor deinterleaved(
    LazyTensor tensor,
    std::int64_t groups,
    const std::vector<std::int64_t>& parts,
    std::size_t index);

} // namespace cairn::checkpoints
