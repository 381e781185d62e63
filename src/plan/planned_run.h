#pragma once

#include "plan/block_time.h"
#include "plan/collectives.h"
#include "plan/internal/constants.h"

#include <cairn/plan/estimate.h>

#include <cstddef>

namespace cairn::plan {

/// A training in a layout on a cluster, with what follows from the three at
/// once: what every part of an estimate is computed from.
struct PlannedRun {
  PlannedRun(
      const Constants& constants,
      const Training& training,
      const RunLayout& layout,
      const Cluster& cluster);

  RankGroup tensor_group() const { return {layout.tensor, 1}; }
  RankGroup data_group() const {
    return {layout.data() * layout.context, layout.tensor};
  }
  RankGroup shard_group() const;
  std::size_t stages() const {
    return static_cast<std::size_t>(layout.pipeline);
  }
  double gpus_of_a_node() const;
  /// Bytes of a value that is sent with so many bits; 16: as it is.
  double wire_bytes(int bits) const;
  /// Bytes a second between a GPU and a tier, while all GPUs of the node move
  /// theirs. Throws ConfigError if the cluster has no such tier.
  double tier_rate(Place place, bool writes) const;

  const Constants& constants;
  const Training& training;
  const RunLayout& layout;
  const Cluster& cluster;
  Network network;
  BlockTime block_time;
  double tokens;         ///< of a micro batch on a rank
  double decoder_tokens; ///< of T5's decoder
};

/// The time that an operation adds if it runs beside `window` seconds of
/// computing.
struct Hiding {
  double interference = 0;
  bool beside = false;
  double added(double time, double window) const {
    return beside
        ? std::max(0.0, time - window) + interference * std::min(time, window)
        : time;
  }
  /// The same of gradients in so many buckets: the last one is full when
  /// backward is over, and nothing hides it.
  double added_behind(double time, double window, double buckets) const {
    const double last = time / buckets;
    return beside ? last + added(time - last, window) : time;
  }
};

/// Bytes of a host's memory that a run may take; the system needs the rest.
double usable_bytes(const Host& host);

} // namespace cairn::plan
