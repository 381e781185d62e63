#pragma once

#include "zero/internal/layout.h"

#include <cairn/plan/estimate.h>

#include <cstdint>
#include <vector>

namespace cairn::plan {

/// A part of the model as one rank has it: a pipeline stage's chunk.
struct PartShare {
  /// Counted from 0; those of T5's decoder follow its encoder's.
  std::vector<std::int64_t> blocks;
  std::int64_t blocks_before = 0; ///< in earlier parts of the same stage
  bool embedding = false;
  bool head = false;
  double parameters = 0; ///< that a rank holds, before ZeRO cuts them
  double experts = 0;    ///< of them in experts
  double in_blocks = 0;  ///< of them in blocks
  std::vector<zero::ParameterSpec> specs;
};

/// The parts of a model by a layout: part c S + s is chunk c of stage s of S.
/// `training`'s model has its vocabulary's padding. Throws ConfigError for
/// more parts than layers.
std::vector<PartShare> part_shares(
    const Training& training,
    const RunLayout& layout);

/// Elements of which a rank keeps the states when they are cut, with the
/// padding that zero::Layout gives them.
double owned_elements(
    const std::vector<const PartShare*>& parts,
    const RunLayout& layout);

/// True if backward computes a block again as a whole. `place`: the number of
/// its stage's blocks before it.
inline bool is_recomputed(const RunLayout& layout, std::int64_t place) {
  return layout.recompute == Recompute::blocks &&
      (layout.recomputed_blocks == 0 || place < layout.recomputed_blocks);
}

/// Ranks that share the states of a parameter that is no expert's.
std::int64_t shard_ranks(const RunLayout& layout);

} // namespace cairn::plan
