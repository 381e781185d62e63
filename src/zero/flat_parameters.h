#pragma once

#include "zero/rank_groups.h"
#include "zero/shard_tier.h"
#include "zero/side_copies.h"

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/zero/layout.h>
#include <cairn/zero/wire.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace cairn::zero {

/// The model's parameters as views of flat buckets. A bucket is either whole,
/// or (stage 3) released: then its one storage is empty, this rank keeps its
/// shard aside, and every parameter in it stays a valid tensor without data.
class FlatParameters {
 public:
  struct Options {
    bool partition = false;   ///< buckets that are not persistent may rest as
                              ///< shards
    bool rest_on_cpu = false; ///< shards of released buckets, not on the GPU
    bool pin = true;          ///< those shards
    /// Where shards rest that are not kept in memory; null: all are.
    std::unique_ptr<ShardTier> disk{};
    /// With `disk`: elements of this rank's shards that stay in memory.
    std::int64_t most_in_memory = 0;
    /// With `disk`: shards that may be read ahead at a time.
    int reads_ahead = 1;
    /// How parts of released buckets travel; those of frozen ones rest like
    /// that as well. Not with rest_on_cpu.
    Wire wire = Wire::exact;
    Wire frozen_wire = Wire::exact;
  };

  /// Moves the data of `parameters`, which are in the layout's order, of one
  /// type and on one device, into buckets. The values of the first rank
  /// count. The layout is that of `groups.shards`.
  FlatParameters(
      const Layout& layout,
      std::vector<at::Tensor> parameters,
      RankGroups groups,
      Options options);

  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  int buckets() const { return static_cast<int>(states_.size()); }
  /// Whether it is ever released.
  bool partitioned(int bucket) const { return states_[bucket].partitioned; }
  bool any_partitioned() const;
  /// What tells an operator's input from other tensors.
  const c10::StorageImpl* storage(int bucket) const;

  /// The bucket's elements; meaningful while it is live.
  at::Tensor whole(int bucket) const { return states_[bucket].whole; }
  /// This rank's part, in memory until given back: aside for a partitioned
  /// bucket, else a view of whole().
  at::Tensor acquire_shard(int bucket);
  /// The same for someone who fills all of it: the values need not be there.
  at::Tensor acquire_blank_shard(int bucket);
  void give_back_shard(int bucket, bool changed);
  /// Whether acquire_shard() gives the same memory every time.
  bool keeps_shard(int bucket) const { return !states_[bucket].on_disk; }

  bool live(int bucket) const { return states_[bucket].live; }
  bool gathering(int bucket) const { return states_[bucket].fetch.has_value(); }
  /// Starts to make a released bucket whole; every rank calls it. `exact`: not
  /// as it comes out of small integers.
  void begin_gather(int bucket, bool exact = false);
  /// Waits for that, starting it if need be.
  void finish_gather(int bucket);
  /// Whether what is live or under way is what rests.
  bool exact(int bucket) const;
  /// Whether a gather that is not exact changes values.
  bool rounds(int bucket) const {
    return wire_of(bucket) != Wire::exact && !states_[bucket].packed.defined();
  }
  /// After the shards have changed: the second copies are old.
  void forget_second_copies();
  /// Lets go of a partitioned bucket's elements.
  void release(int bucket);

  /// After a failed gather: memory full of NaN, so that an operator that is
  /// about to run has something to read.
  void fill_missing(int bucket) noexcept;

  /// After a live bucket has changed on all ranks alike: this rank's shard
  /// takes the new values over.
  void keep(int bucket);

  /// After the shards have changed: brings everyone's part into whole(), for
  /// buckets that stay whole. Wait for it before anyone reads.
  distributed::Pending publish(int bucket);

  /// Bytes of elements that are there now.
  struct Bytes {
    std::int64_t whole = 0;   ///< of buckets that stay whole
    std::int64_t shards = 0;  ///< of the others, with second copies
    std::int64_t on_cpu = 0;  ///< of the others, with buffers for the disk
    std::int64_t on_disk = 0; ///< of the others
    std::int64_t live = 0; ///< of the others, while gathered; on the way there
                           ///< also as they travel
  };
  Bytes bytes() const;

 private:
  struct Fetch {
    at::Tensor fresh;
    bool exact = true;
    bool started = false; ///< else it waits for those before, and for the disk
    bool from_second_copy = false;
    at::Tensor packed{}; ///< everyone's parts, if they come so
    at::Tensor hop{};    ///< one of each node's parts, in two gathers
    CopyMark copied{};   ///< this rank's part is in `fresh`
    std::optional<distributed::Pending> gathered{};
  };
  struct State {
    at::Tensor whole;
    at::Tensor resting; ///< this rank's shard, if partitioned and in memory
    at::Tensor packed;  ///< the same in small integers, instead
    at::Tensor opened;  ///< what was packed, until it is given back
    /// This rank's part of the copy that its inner group shares; undefined
    /// until the first gather after an update. It rests as it travels.
    at::Tensor second_copy;
    std::optional<Fetch> fetch;
    bool partitioned = false;
    bool on_disk = false;
    bool live = true;
    bool exact = true; ///< while live
  };

  const distributed::ProcessGroup& group_of(int bucket) const {
    return groups_.sharers(layout_->buckets()[bucket]);
  }
  Range mine(int bucket) const {
    return layout_->shard(bucket, group_of(bucket).rank());
  }
  Wire wire_of(int bucket) const;
  void rest(int bucket);
  void start(int bucket);
  bool start_from_second_copy(int bucket);
  bool start_packed(int bucket);
  void gather_parts(int bucket, Fetch& fetch, const at::Tensor& part);
  void spread_in_node(const Fetch& fetch);
  void land(int bucket, const Fetch& fetch);
  void start_all_but(std::size_t waiting);
  void let_go_of_buffer();
  static void adopt(State& state, const at::Tensor& fresh);
  static void drop_storage(State& state);

  const Layout* layout_;
  std::vector<at::Tensor> parameters_;
  RankGroups groups_;
  Options options_;
  SideCopies copies_;
  std::vector<State> states_;
  std::deque<int> waiting_;    ///< fetches that have not started, in order
  std::int64_t in_memory_ = 0; ///< elements that rest there, with `disk`
  /// The bucket on disk whose buffer the GPU is copying from.
  std::optional<int> copied_from_;
};

} // namespace cairn::zero
