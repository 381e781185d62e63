#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

/// A tensor that is read when asked for, some rows at a time, and joined, cut
/// or reordered on the way. Files larger than memory can be converted with it.
struct LazyTensor {
  /// Reads rows [begin, end) along the first dimension, on the CPU. A number
  /// without dimensions is one row. The result may be the file's own memory,
  /// which must not be written to.
  using Rows = std::function<at::Tensor(std::int64_t begin, std::int64_t end)>;

  LazyTensor() = default;
  /// A tensor made from a function that loads it whole, each time anew.
  LazyTensor(
      at::ScalarType element_type,
      std::vector<std::int64_t> sizes,
      std::function<at::Tensor()> load_whole);

  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;
  /// Begins to read. Throws CheckpointError if the tensor that is there differs
  /// from the announced one.
  std::function<Rows()> open;

  std::int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  std::int64_t row_elements() const;
  at::Tensor load() const { return open()(0, rows()); }
  /// Passes all bytes in order to `take`, never many of them at once.
  void stream(
      const std::function<void(std::span<const std::byte>)>& take) const;
};

/// Tensors in the order in which they are written.
using NamedTensors = std::vector<std::pair<std::string, LazyTensor>>;

} // namespace cairn::checkpoints
