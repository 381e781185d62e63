#include "plan/collectives.h"

#include <algorithm>
#include <cmath>

namespace cairn::plan {

Network::Path Network::path(RankGroup group) const {
  Path path;
  const double ranks = static_cast<double>(group.size);
  double inside = 1; // ranks of the group in one part of the level below
  for (const Level& level : cluster_.levels) {
    const bool last = &level == &cluster_.levels.back();
    // Ranks of the group that this level connects.
    const double here = last ? ranks
                             : std::clamp(
                                   std::floor(
                                       static_cast<double>(level.ranks) /
                                       static_cast<double>(group.stride)),
                                   1.0,
                                   ranks);
    if (here > inside) {
      // A ring crosses a border once for each part of the level below: all of
      // the links of the group's ranks in that part serve it.
      const double bandwidth = level.bandwidth * share_ * inside;
      path.bandwidth =
          path.bandwidth == 0 ? bandwidth : std::min(path.bandwidth, bandwidth);
      path.latency = level.latency;
      path.ring_latency += level.latency * (here / inside - 1);
      inside = here;
    }
    if (inside == ranks) {
      break;
    }
  }
  return path;
}

double Network::all_gather(RankGroup group, double bytes) const {
  if (group.size <= 1) {
    return 0;
  }
  const Path way = path(group);
  const double n = static_cast<double>(group.size);
  return bytes * (n - 1) / n / way.bandwidth + way.ring_latency;
}

double Network::all_reduce(RankGroup group, double bytes) const {
  if (group.size <= 1) {
    return 0;
  }
  const Path way = path(group);
  const double n = static_cast<double>(group.size);
  const double ring =
      2 * (bytes * (n - 1) / n / way.bandwidth + way.ring_latency);
  const double tree =
      2 * (bytes / way.bandwidth + std::ceil(std::log2(n)) * way.latency);
  return std::min(ring, tree);
}

double Network::all_to_all(RankGroup group, double bytes) const {
  if (group.size <= 1) {
    return 0;
  }
  const Path way = path(group);
  const double n = static_cast<double>(group.size);
  // Unlike a ring's, every rank's data cross the outermost level.
  double bandwidth = 0;
  for (const Level& level : cluster_.levels) {
    bandwidth = level.bandwidth * share_;
    if (static_cast<double>(level.ranks) >=
        n * static_cast<double>(group.stride)) {
      break;
    }
  }
  return bytes * (n - 1) / n / bandwidth + way.latency * std::log2(n);
}

double Network::send(std::int64_t stride, double bytes) const {
  const Level* level = &cluster_.levels.back();
  for (const Level& each : cluster_.levels) {
    if (stride < each.ranks) {
      level = &each;
      break;
    }
  }
  return bytes / (level->bandwidth * share_) + level->latency;
}

} // namespace cairn::plan
