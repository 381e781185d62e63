#pragma once

#include "checkpoint/deepspeed/flat_parameters.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn::checkpoints::deepspeed {

/// A stretch of a parameter, or of zeros if it has no name.
struct ZeroSegment {
  std::string name{};
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// A flat tensor of the optimizer.
struct ZeroFlat {
  std::size_t group = 0; ///< of parameters; stage 3 has several tensors of one
  std::vector<std::pair<std::string, Shape>> parameters;
  std::int64_t padding = 0; ///< at the end of the last rank's part
  std::vector<std::vector<ZeroSegment>> by_rank;
};

/// Stages 1 and 2: a group is one flat tensor, padded to a multiple of twice
/// the ranks, as DeepSpeed does, and cut in equal parts.
std::vector<ZeroFlat> plan_by_group(const ShapeGroups& groups, int ranks);

/// Stage 3: every parameter is padded and cut by itself; a flat tensor ends
/// when a rank's part of it has `sub_group_size` elements.
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
