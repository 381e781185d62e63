#include "zero/reduce/packed_reduction.h"

#include "zero/reduce/packed.h"

#include <ATen/Functions.h>

namespace cairn::zero {

namespace {

bool has_two_hops(const RankGroups& groups) {
  return groups.inner.size() > 1 && groups.outer.size() > 1;
}

const distributed::ProcessGroup& first_hop(const RankGroups& groups) {
  return has_two_hops(groups) ? groups.inner : groups.shards;
}

at::Tensor room_for(
    std::int64_t shards,
    std::int64_t elements,
    Wire wire,
    const at::Tensor& like) {
  return at::empty(
      {shards, wire_bytes(wire, elements, 0)},
      like.options().dtype(at::kByte));
}

/// Packs a bucket in the order of its receivers: shard `o * peers + p` goes to
/// peer `p` of the first hop, who brings its parts to the owners `o`.
at::Tensor packed_for_peers(
    const at::Tensor& whole,
    int peers,
    int parts,
    Wire wire) {
  const std::int64_t shard = whole.numel() / (peers * parts);
  at::Tensor packed = room_for(peers * parts, shard, wire, whole);
  for (int peer = 0; peer < peers; ++peer) {
    for (int part = 0; part < parts; ++part) {
      pack(
          whole.narrow(0, (part * peers + peer) * shard, shard),
          wire,
          packed[peer * parts + part]);
    }
  }
  return packed;
}

/// Adds up `received` [peers * parts, bytes] into [parts, elements].
at::Tensor summed(
    const at::Tensor& received,
    int peers,
    int parts,
    std::int64_t elements,
    Wire wire) {
  const at::Tensor sums =
      at::zeros({parts, elements}, received.options().dtype(at::kFloat));
  for (int peer = 0; peer < peers; ++peer) {
    for (int part = 0; part < parts; ++part) {
      add_packed(received[peer * parts + part], wire, sums[part]);
    }
  }
  return sums;
}

} // namespace

at::Tensor PackedReduction::packed_for(
    const at::Tensor& whole,
    const RankGroups& groups,
    Wire wire) {
  const int peers = first_hop(groups).size();
  return packed_for_peers(whole, peers, groups.shards.size() / peers, wire);
}

PackedReduction::PackedReduction(
    const at::Tensor& whole,
    const RankGroups& groups,
    Wire wire,
    const at::Tensor& packed)
    : groups_(&groups),
      wire_(wire),
      peers_(first_hop(groups).size()),
      parts_(groups.shards.size() / peers_),
      shard_(whole.numel() / groups.shards.size()),
      sent_bytes_(wire_bytes(wire, shard_, 0) * groups.shards.size()),
      sent_(packed.storage().getWeakStorageImpl()),
      pending_(first_hop(groups).all_to_all(packed)) {}

void PackedReduction::advance() {
  if (parts_ == 1 || std::exchange(in_second_hop_, true)) {
    return;
  }
  const at::Tensor sums =
      summed(pending_.wait(), peers_, parts_, shard_, wire_);
  at::Tensor packed = room_for(parts_, shard_, wire_, sums);
  for (int part = 0; part < parts_; ++part) {
    pack(sums[part], wire_, packed[part]);
  }
  sent_bytes_ = wire_bytes(wire_, shard_, 0) * parts_;
  sent_ = packed.storage().getWeakStorageImpl();
  pending_ = groups_->outer.all_to_all(packed);
}

at::Tensor PackedReduction::finish() {
  advance();
  const int senders = parts_ > 1 ? parts_ : peers_;
  return summed(pending_.wait(), senders, 1, shard_, wire_).view({-1});
}

} // namespace cairn::zero
