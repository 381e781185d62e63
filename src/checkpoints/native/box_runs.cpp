#include "checkpoints/native/box_runs.h"

namespace cairn::checkpoints {

BoxRuns::BoxRuns(const std::vector<std::int64_t>& shape, const Box& box) {
  const std::size_t dimensions = shape.size();
  std::vector<std::int64_t> strides(dimensions, 1);
  std::int64_t whole = 1;
  for (std::size_t d = dimensions; d-- > 0;) {
    strides[d] = whole;
    whole *= shape[d];
  }
  if (box.empty()) {
    row_ = run_ = elements_ = whole;
    return;
  }
  // The last dimension that the box cuts: all dimensions after it are whole.
  std::size_t cut = dimensions;
  for (std::size_t d = 0; d < dimensions; ++d) {
    elements_ *= box.size[d];
    if (box.size[d] != shape[d]) {
      cut = d;
    }
  }
  if (cut == dimensions) {
    row_ = run_ = whole;
    return;
  }
  row_ = shape[cut] * strides[cut];
  run_ = box.size[cut] * strides[cut];
  first_ = box.begin[cut] * strides[cut];
  for (std::size_t d = 0; d < cut; ++d) {
    outer_.push_back({strides[d], box.begin[d], box.size[d]});
  }
}

std::int64_t BoxRuns::in_tensor(std::int64_t in_box) const {
  std::int64_t place = first_ + in_box % run_;
  std::int64_t left = in_box / run_;
  for (std::size_t d = outer_.size(); d-- > 0;) {
    place += (outer_[d].begin + left % outer_[d].size) * outer_[d].stride;
    left /= outer_[d].size;
  }
  return place;
}

std::int64_t BoxRuns::in_box(std::int64_t in_tensor) const {
  std::int64_t left = in_tensor;
  std::int64_t run = 0;
  for (const Dimension& dimension : outer_) {
    const std::int64_t index = left / dimension.stride - dimension.begin;
    left %= dimension.stride;
    if (index < 0 || index >= dimension.size) {
      return -1;
    }
    run = run * dimension.size + index;
  }
  left -= first_;
  return left < 0 || left >= run_ ? -1 : run * run_ + left;
}

} // namespace cairn::checkpoints
