#pragma once

#include <cairn/plan/cluster.h>

#include <cstdint>

namespace cairn::plan {

/// Ranks that talk to each other: `size` of them, `stride` apart.
struct RankGroup {
  std::int64_t size = 1;
  std::int64_t stride = 1;
};

/// Seconds of messages on a cluster, by an alpha-beta model: each of the
/// messages that follow one another costs a latency, and the bytes that pass
/// the narrowest level cost their share of its bandwidth. All groups of a kind
/// talk at once, and ranks of a group that lie together inside a level share
/// what that level has to the outside.
class Network {
 public:
  /// `share`: part of the bandwidth of a link that collectives reach.
  Network(const Cluster& cluster, double share)
      : cluster_(cluster), share_(share) {}

  /// `bytes`: of the whole, of which each rank has or gets a part.
  double all_gather(RankGroup group, double bytes) const;
  double reduce_scatter(RankGroup group, double bytes) const {
    return all_gather(group, bytes);
  }
  /// `bytes`: of the tensor that every rank has. The better of a ring and a
  /// tree.
  double all_reduce(RankGroup group, double bytes) const;
  /// `bytes`: that each rank sends in all.
  double all_to_all(RankGroup group, double bytes) const;
  /// A message to the rank `stride` away.
  double send(std::int64_t stride, double bytes) const;

 private:
  struct Path {
    double bandwidth = 0;    ///< of a ring through all ranks, at its narrowest
    double latency = 0;      ///< of a message at the outermost level
    double ring_latency = 0; ///< of a way round the ring
  };
  Path path(RankGroup group) const;

  const Cluster& cluster_;
  double share_;
};

} // namespace cairn::plan
