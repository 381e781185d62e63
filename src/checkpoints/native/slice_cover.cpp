#include "checkpoints/native/slice_cover.h"

#include "checkpoints/native/box_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

namespace cairn::checkpoints {

namespace {

using Stretch = std::pair<std::int64_t, std::int64_t>;

std::string shown(const Box& box) {
  return box.empty() ? ""
                     : fmt::format(
                           " in the box of [{}] at [{}]",
                           fmt::join(box.size, ", "),
                           fmt::join(box.begin, ", "));
}

std::string fault_of_box(
    const Box& box,
    std::vector<Stretch> stretches,
    std::int64_t elements) {
  std::ranges::sort(stretches);
  stretches.emplace_back(elements, elements);
  std::int64_t covered = 0;
  for (const auto& [begin, end] : stretches) {
    if (begin != covered) {
      return fmt::format(
          "elements {} to {}{} are {}",
          std::min(begin, covered),
          std::max(begin, covered),
          shown(box),
          begin > covered ? "missing" : "there twice");
    }
    covered = end;
  }
  return {};
}

bool overlap(const Box& one, const Box& other) {
  for (std::size_t d = 0; d < one.begin.size(); ++d) {
    if (one.begin[d] >= other.begin[d] + other.size[d] ||
        other.begin[d] >= one.begin[d] + one.size[d]) {
      return false;
    }
  }
  return true;
}

std::string fault_of_boxes(const std::vector<Box>& boxes) {
  // The boxes are sorted: those that start behind the end of one do not meet
  // it.
  for (auto one = boxes.begin(); one != boxes.end(); ++one) {
    for (auto other = one + 1; other != boxes.end(); ++other) {
      if (!one->begin.empty() &&
          other->begin[0] >= one->begin[0] + one->size[0]) {
        break;
      }
      if (overlap(*one, *other)) {
        return fmt::format(
            "the boxes at [{}] and [{}] overlap",
            fmt::join(one->begin, ", "),
            fmt::join(other->begin, ", "));
      }
    }
  }
  return {};
}

} // namespace

std::string fault_of_cover(const ManifestTensor& tensor) {
  std::map<Box, std::vector<Stretch>> by_box;
  for (const StoredSlice& slice : tensor.slices) {
    if (slice.end > slice.begin) {
      by_box[slice.box].emplace_back(slice.begin, slice.end);
    }
  }
  std::int64_t covered = 0;
  std::vector<Box> boxes;
  for (auto& [box, stretches] : by_box) {
    const std::int64_t elements = BoxRuns(tensor.shape, box).elements();
    std::string fault = fault_of_box(box, std::move(stretches), elements);
    if (!fault.empty()) {
      return fault;
    }
    covered += elements;
    boxes.push_back(
        box.empty()
            ? Box{std::vector<std::int64_t>(tensor.shape.size()), tensor.shape}
            : box);
  }
  std::ranges::sort(boxes);
  if (std::string fault = fault_of_boxes(boxes); !fault.empty()) {
    return fault;
  }
  const std::int64_t elements = BoxRuns(tensor.shape, {}).elements();
  return covered == elements ? ""
                             : fmt::format(
                                   "{} of {} elements are missing",
                                   elements - covered,
                                   elements);
}

} // namespace cairn::checkpoints
