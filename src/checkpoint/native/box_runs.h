#pragma once

#include <cairn/checkpoint/slices.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::checkpoints {

/// Where the elements of a box lie in its tensor. Both are counted row by row;
/// elements that follow each other in both make a run, all runs of a box are
/// equally long.
class BoxRuns {
 public:
  /// The box lies within the shape.
  BoxRuns(const std::vector<std::int64_t>& shape, const Box& box);

  std::int64_t elements() const { return elements_; }
  std::int64_t run() const { return run_; }

  /// The place in the tensor of an element of the box.
  std::int64_t in_tensor(std::int64_t in_box) const;
  /// The other way; -1 for an element that the box has not.
  std::int64_t in_box(std::int64_t in_tensor) const;

 private:
  struct Dimension {
    std::int64_t stride = 1; ///< in the tensor
    std::int64_t begin = 0;
    std::int64_t size = 1;
  };
  std::vector<Dimension> outer_; ///< those that count runs
  std::int64_t first_ = 0;       ///< of a run, within what outer_ leaves
  std::int64_t row_ = 1;         ///< elements that outer_ leaves
  std::int64_t run_ = 1;
  std::int64_t elements_ = 1;
};

} // namespace cairn::checkpoints
