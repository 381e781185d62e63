#include "checkpoints/deepspeed/zero_plan.h"

#include <algorithm>
#include <utility>

namespace cairn::checkpoints::deepspeed {

namespace {

std::int64_t divided_up(std::int64_t elements, std::int64_t by) {
  return elements / by + (elements % by == 0 ? 0 : 1);
}

void add_zeros(std::vector<ZeroSegment>& segments, std::int64_t count) {
  if (count > 0) {
    segments.push_back({.count = count});
  }
}

} // namespace

std::vector<ZeroFlat> plan_by_group(const ShapeGroups& groups, int ranks) {
  std::vector<ZeroFlat> result;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    std::int64_t elements = 0;
    for (const auto& [name, shape] : groups[group]) {
      elements += elements_of(shape);
    }
    const std::int64_t padded = divided_up(elements, 2 * ranks) * 2 * ranks;
    const std::int64_t each = padded / ranks;
    ZeroFlat flat{
        .group = group,
        .parameters = groups[group],
        .padding = padded - elements};
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<ZeroSegment>& segments = flat.by_rank.emplace_back();
      std::int64_t begin = rank * each; // counted in what is left of the group
      std::int64_t left = each;
      for (const auto& [name, shape] : groups[group]) {
        const std::int64_t size = elements_of(shape);
        const std::int64_t count = std::min(left, size - begin);
        if (count > 0) {
          segments.push_back({name, begin, count});
          begin += count;
          left -= count;
        }
        begin -= size;
        if (left == 0) {
          break;
        }
      }
      add_zeros(segments, left);
    }
    result.push_back(std::move(flat));
  }
  return result;
}

std::vector<ZeroSegment> part_of(
    const std::string& name,
    std::int64_t elements,
    int rank,
    int ranks) {
  const std::int64_t each = divided_up(elements, ranks);
  const std::int64_t begin = std::min(elements, rank * each);
  const std::int64_t count = std::min(each, elements - begin);
  std::vector<ZeroSegment> segments;
  if (count > 0) {
    segments.push_back({name, begin, count});
  }
  add_zeros(segments, each - count);
  return segments;
}

std::vector<ZeroFlat> plan_by_parameter(
    const ShapeGroups& groups,
    int ranks,
    std::int64_t sub_group_size) {
  std::vector<ZeroFlat> result;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    // Makes the first parameter start a flat tensor.
    std::int64_t filled = sub_group_size;
    for (const auto& [name, shape] : groups[group]) {
      if (filled >= sub_group_size) {
        result.push_back({.group = group});
        result.back().by_rank.resize(static_cast<std::size_t>(ranks));
        filled = 0;
      }
      ZeroFlat& flat = result.back();
      flat.parameters.emplace_back(name, shape);
      const std::int64_t elements = elements_of(shape);
      for (int rank = 0; rank < ranks; ++rank) {
        auto& segments = flat.by_rank[static_cast<std::size_t>(rank)];
        for (ZeroSegment& segment : part_of(name, elements, rank, ranks)) {
          segments.push_back(std::move(segment));
        }
      }
      filled += divided_up(elements, ranks);
    }
  }
  return result;
}

} // namespace cairn::checkpoints::deepspeed
