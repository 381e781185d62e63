#include "plan/internal/what_if.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <cmath>

namespace cairn::plan {

Reliability reliability_of(const Cluster& cluster) {
  return {.node_mttf = cluster.host.mttf, .storage = cluster.host.storage};
}

Goodput goodput_of(
    const Training& training,
    const Estimate& estimate,
    const Cluster& cluster,
    const Reliability& reliability) {
  Goodput result;
  if (reliability.node_mttf <= 0 && !reliability.interval) {
    return result;
  }
  if (reliability.storage <= 0) {
    throw ConfigError(
        {.what = "how fast a node writes checkpoints is not known",
         .where = cluster.name,
         .remedy = "give --storage-gb-per-s, or host.storage_gb_per_s in the "
                   "cluster's description"});
  }
  const auto gpus = static_cast<double>(estimate.layout.gpus);
  const double nodes =
      std::ceil(gpus / static_cast<double>(cluster.gpus_per_node));
  const StateBytes& states = training.states;
  result.checkpoint_bytes =
      estimate.parameters * (states.parameter + states.master + states.moments);
  result.write_seconds =
      result.checkpoint_bytes / (nodes * reliability.storage);
  const double copies = cluster.host.copy_bandwidth;
  // What is on the hosts already needs no copy from a GPU, but one in memory,
  // which is as fast at least.
  result.stall_seconds = copies > 0 ? result.checkpoint_bytes / gpus / copies
                                    : result.write_seconds;
  const double iteration = estimate.iteration_seconds;
  double failures = 0; // a second
  if (reliability.node_mttf > 0) {
    result.failure_seconds = reliability.node_mttf / nodes;
    failures = 1 / result.failure_seconds;
  }
  // Young's optimum, but no checkpoint begins before the last one is written.
  const double best =
      failures > 0 ? std::sqrt(2 * result.stall_seconds / failures) : iteration;
  result.interval =
      reliability.interval.value_or(static_cast<std::int64_t>(std::ceil(
          std::max({best, result.write_seconds, iteration}) / iteration)));
  const double between = std::max(
      static_cast<double>(result.interval) * iteration,
      result.write_seconds);
  if (failures > 0) {
    result.lost_seconds =
        between / 2 + 2 * result.write_seconds + reliability.restart;
  }
  result.share = 1 /
      ((1 + result.stall_seconds / between) *
       (1 + failures * result.lost_seconds));
  return result;
}

} // namespace cairn::plan
