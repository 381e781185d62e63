#pragma once

#include <cairn/plan/estimate.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What a run would be on a worse machine.

namespace cairn::plan {

/// The cluster with the links of a level faster or slower by a factor; "all":
/// of every level. Throws ConfigError for a level that it does not have.
Cluster with_links(Cluster cluster, const std::string& level, double factor);

/// Failures and checkpoints of a run.
struct Reliability {
  double node_mttf = 0; ///< seconds, of a node; 0: nothing ever fails
  double storage = 0;   ///< bytes a second that each node writes and reads
  double restart = 600; ///< seconds from a failure to the loading of a state
  /// Iterations between two checkpoints; unset: as many as cost least.
  std::optional<std::int64_t> interval{};
};

/// The cluster's own reliability.
Reliability reliability_of(const Cluster& cluster);

/// The part of its time in which a run gets ahead.
struct Goodput {
  double share = 1;
  double failure_seconds = 0;  ///< between two failures; 0: none
  double checkpoint_bytes = 0; ///< weights and the optimizer's states
  double stall_seconds = 0;    ///< training waits for a checkpoint's copy
  double write_seconds = 0;    ///< until the checkpoint is on the storage
  std::int64_t interval = 0;   ///< iterations between checkpoints; 0: none
  double lost_seconds = 0;     ///< by each failure
};

/// Checkpoints are written as the engine does: the ranks copy their parts to
/// the hosts' memory while training waits, and write them beside training. A
/// failure loses half an interval and the checkpoint under way, the restart,
/// and the time for reading the last one. Throws ConfigError if the storage's
/// speed is not known.
Goodput goodput_of(
    const Training& training,
    const Estimate& estimate,
    const Cluster& cluster,
    const Reliability& reliability);

/// One layout at a number of GPUs, with the same batch ("strong") or with one
/// that grows with the GPUs ("weak"). Unset where the batch or the model does
/// not divide, or nothing fits.
struct ScalingPoint {
  std::int64_t gpus = 1;
  std::optional<Estimate> strong;
  std::optional<Estimate> weak;
};

/// Estimates a layout on 1, 2, 4, … times as many GPUs, and on as many as
/// `most` allows: the ranks that are added are data parallel. The cluster has
/// as many nodes as it takes.
std::vector<ScalingPoint> scaling(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster,
    std::int64_t most,
    const EstimateOptions& options = {});

} // namespace cairn::plan
