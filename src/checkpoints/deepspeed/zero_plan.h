#pragma once

#include "checkpoints/deepspeed/flat_parameters.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn::checkpoints::deepspeed {

/// A stretch of a parameter, or of zeros if `name` is empty.
struct ZeroSegment {
  std::string name{};
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// A flat tensor of the optimizer.
struct ZeroFlat {
  /// Group of parameters; at stage 3 one has several flats.
  std::size_t group = 0;
  std::vector<std::pair<std::string, Shape>> parameters;
  std::int64_t padding = 0; ///< at the end of the last rank's part
  std::vector<std::vector<ZeroSegment>> by_rank;
};

/// Plan of stages 1 and 2: a group is one flat tensor, padded to a multiple of
/// twice the ranks, as DeepSpeed does, and cut into equal parts.
std::vector<ZeroFlat> plan_by_group(const ShapeGroups& groups, int ranks);

/// Plan of stage 3: every parameter is padded and cut by itself. A flat tensor
/// ends when a rank's part of it has `sub_group_size` elements.
std::vector<ZeroFlat> plan_by_parameter(
    const ShapeGroups& groups,
    int ranks,
    std::int64_t sub_group_size);

/// A rank's part of a parameter at stage 3, padded.
std::vector<ZeroSegment> part_of(
    const std::string& name,
    std::int64_t elements,
    int rank,
    int ranks);

} // namespace cairn::checkpoints::deepspeed
