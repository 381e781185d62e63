#pragma once

#include <cairn/plan/estimate.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn::plan {

/// A way to share and place the states of a training, on the ranks and with the
/// batch of a layout.
struct StageChoice {
  std::string name; ///< "ZeRO 2, optimizer on the CPU"
  /// Unset where the layout does not allow it.
  std::optional<Estimate> estimate;
  /// Parameters of the largest model that fits, made from this one by more or
  /// fewer layers; 0 if none does.
  double largest = 0;
};

/// ZeRO's stages, and offloading from stage 2 on, for one layout: what each
/// costs in time and saves in memory.
std::vector<StageChoice> stage_choices(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster);

} // namespace cairn::plan
