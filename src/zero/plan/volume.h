#pragma once

#include "zero/internal/layout.h"
#include "zero/internal/policy.h"

#include <cstdint>
#include <vector>

namespace cairn::zero {

struct VolumeOptions {
  int ranks = 1; ///< ranks that train the same parameters
  std::int64_t parameter_bytes = 2;
  std::int64_t gradient_bytes = 2; ///< on the wire, if they travel exactly
  int passes = 1;                  ///< backward passes in a step
  /// Number of gathers of each bucket in a step; empty: two, before forward and
  /// before backward.
  std::vector<int> gathers{};
};

/// Bytes that one rank sends in a step, by purpose and receiver. They are
/// counted as distributed::bytes_sent() does.
struct StepVolume {
  std::int64_t gather = 0;       ///< parameters, among the ranks of one copy
  std::int64_t gather_outer = 0; ///< parameters, to other nodes
  /// Parameters, within a node, or from a second copy.
  std::int64_t gather_inner = 0;
  std::int64_t reduce = 0; ///< gradients, among the ranks of one copy
  /// Packed gradients, within the group of a second copy.
  std::int64_t reduce_inner = 0;
  /// Packed gradients, between the groups of second copies.
  std::int64_t reduce_outer = 0;
  std::int64_t reduce_replicas = 0; ///< gradients, between copies
  std::int64_t sum() const {
    return gather + gather_outer + gather_inner + reduce + reduce_inner +
        reduce_outer + reduce_replicas;
  }
};

/// Bytes that a policy costs on the wire; the layout is that of one copy's
/// ranks. Numbers that are not worth a column (norms, flags) are not counted.
StepVolume step_volume(
    const Layout& layout,
    const Policy& policy,
    const VolumeOptions& options);

} // namespace cairn::zero
