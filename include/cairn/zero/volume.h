#pragma once

#include <cairn/zero/layout.h>
#include <cairn/zero/policy.h>

#include <cstdint>
#include <vector>

namespace cairn::zero {

struct VolumeOptions {
  int ranks = 1; ///< that train the same parameters
  std::int64_t parameter_bytes = 2;
  std::int64_t gradient_bytes = 2; ///< as they travel, if they travel exactly
  int passes = 1;                  ///< backward passes in a step
  /// How often each bucket is gathered in a step; empty: before forward and
  /// before backward.
  std::vector<int> gathers{};
};

/// Bytes that one rank sends in a step, by whom they go to: as
/// distributed::bytes_sent() counts them.
struct StepVolume {
  std::int64_t gather = 0;       ///< parameters, among those who share a copy
  std::int64_t gather_outer = 0; ///< parameters, to other nodes
  std::int64_t gather_inner = 0; ///< and within, or from a second copy
  std::int64_t reduce = 0;       ///< gradients, among those who share a copy
  std::int64_t reduce_inner = 0; ///< packed gradients, within a second copy's
  std::int64_t reduce_outer = 0; ///< and then between those
  std::int64_t reduce_replicas = 0; ///< gradients, between copies
  std::int64_t sum() const {
    return gather + gather_outer + gather_inner + reduce + reduce_inner +
        reduce_outer + reduce_replicas;
  }
};

/// What a policy costs on the wire; the layout is that of one copy's ranks.
/// Numbers that are not worth a column (norms, flags) are not counted.
StepVolume step_volume(
    const Layout& layout,
    const Policy& policy,
    const VolumeOptions& options);

} // namespace cairn::zero
