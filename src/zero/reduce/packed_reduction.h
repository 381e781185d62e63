#pragma once

#include "zero/internal/rank_groups.h"
#include "zero/reduce/wire.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace cairn::zero {

/// The sum of a bucket over the ranks that share it, which travels in blocks of
/// small integers. Every rank sends each owner its part, and the owner adds the
/// parts up in fp32, in the order of ranks. A sum inside the network would
/// round once per rank; this rounds once per hop.
///
/// Where there is a second copy of the parameters, its groups make two hops:
/// within the group first, so that a group sends each part over the slow wire
/// only once.
class PackedReduction {
 public:
  /// Starts the sum. Every rank makes it, in the same order.
  PackedReduction(const at::Tensor& whole, const RankGroups& groups, Wire wire)
      : PackedReduction(whole, groups, wire, packed_for(whole, groups, wire)) {}

  /// Waits for the first of two hops and starts the second, which then runs
  /// beside whatever follows; does nothing where there is one hop, or when
  /// called again. Every rank calls it at the same place in its calls.
  void advance();
  /// This rank's shard of the sum, in fp32. Every rank calls it once.
  at::Tensor finish();
  /// Bytes held until finish(): the arriving parts, and as many bytes that are
  /// sent, as long as the backend keeps those.
  std::int64_t bytes() const {
    return sent_.expired() ? sent_bytes_ : 2 * sent_bytes_;
  }

 private:
  PackedReduction(
      const at::Tensor& whole,
      const RankGroups& groups,
      Wire wire,
      const at::Tensor& packed);
  static at::Tensor packed_for(
      const at::Tensor& whole,
      const RankGroups& groups,
      Wire wire);

  const RankGroups* groups_;
  Wire wire_;
  int peers_; ///< ranks of the first hop
  int parts_; ///< parts that each of them gets
  std::int64_t shard_;
  std::int64_t sent_bytes_;
  c10::weak_intrusive_ptr<c10::StorageImpl> sent_;
  distributed::Pending pending_; ///< the hop under way
  bool in_second_hop_ = false;
};

} // namespace cairn::zero
