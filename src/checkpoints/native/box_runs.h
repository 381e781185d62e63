#pragma once

#include <cairn/checkpoints/slices.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::checkpoints {

/// The places of a box's elements in its tensor. Both are counted row by row.
/// Elements that follow each other in both make a run; all runs of a box are
/// equally long.
class BoxRuns {
 public:
  /// `box` must lie within `shape`.
  BoxRuns(const std::vector<std::int64_t>& shape, const Box& box);

  std::int64_t elements() const { return elements_; }
  std::int64_t run() const { return run_; }

  /// The position in the tensor of an element of the box.
  std::int64_t in_tensor(std::int64_t in_box) const;
  /// The position in the box of an element of the tensor; -1 if it is not in
  /// the box.
  std::int64_t in_box(std::int64_t in_tensor) const;

 private:
  struct Dimension {
    std::int64_t stride = 1; ///< in the tensor
    std::int64_t begin = 0;
    std::int64_t size = 1;
  };
  /// Dimensions before the last one that is cut.
  std::vector<Dimension> outer_;
  std::int64_t first_ = 0; ///< beginning of a run in its row
  /// Elements of one row: the last cut dimension and all after it.
  std::int64_t row_ = 1;
  std::int64_t run_ = 1;
  std::int64_t elements_ = 1;
};

} // namespace cairn::checkpoints
