#pragma once

#include "distributed/internal/buffer_pool.h"
#include "zero/internal/layout.h"
#include "zero/internal/rank_groups.h"
#include "zero/reduce/side_copies.h"
#include "zero/reduce/wire.h"
#include "zero/tiers/shard_tier.h"

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::zero {

/// The model's parameters as views of flat buckets. A bucket is either whole or
/// (stage 3) released. The one storage of a released bucket is empty, this rank
/// keeps its shard aside, and every parameter in it stays a valid tensor
/// without data.
class FlatParameters {
 public:
  struct Options {
    /// True when buckets that are not persistent may rest as shards.
    bool partition = false;
    /// True when the shards of released buckets rest in host memory, not on the
    /// GPU.
    bool rest_on_cpu = false;
    /// True when those shards are in page-locked memory.
    bool pin = true;
    /// Tier of the shards that are not kept in memory; null: all are kept.
    std::unique_ptr<ShardTier> disk{};
    /// Elements of this rank's shards that stay in memory. Only with `disk`.
    std::int64_t most_in_memory = 0;
    /// Shards that may be read ahead at a time. Only with `disk`.
    int reads_ahead = 1;
    /// The form in which released trainable buckets travel. Not with
    /// rest_on_cpu.
    Wire wire = Wire::exact;
    /// The form in which released frozen buckets travel and rest. Not with
    /// rest_on_cpu.
    Wire frozen_wire = Wire::exact;
    /// Memory of whole buckets, and of the parts that are sent; null: any.
    std::shared_ptr<distributed::BufferPool> buffers{};
    /// Parameters, by number, that have no memory yet; empty: all have.
    std::vector<bool> without_memory{};
    /// Writes elements of such a parameter, from `first` on, to `values` [n]:
    /// the same on all ranks. Called by the constructor only.
    std::function<
        void(int parameter, std::int64_t first, const at::Tensor& values)>
        fill{};
  };

  /// Moves the data of `parameters` into buckets. The parameters are in the
  /// layout's order, of one type and on one device. The values of the first
  /// rank count. The layout is that of `groups.shards`. Where parameters have
  /// no memory yet, a rank makes only the shards that it keeps.
  FlatParameters(
      const Layout& layout,
      std::vector<at::Tensor> parameters,
      RankGroups groups,
      Options options);

  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  int buckets() const { return static_cast<int>(states_.size()); }
  /// True when the bucket is ever released.
  bool partitioned(int bucket) const { return states_[bucket].partitioned; }
  bool any_partitioned() const;
  /// The bucket's storage: tells an input of an operator from other tensors.
  const c10::StorageImpl* storage(int bucket) const;

  /// The bucket for people: its number and its parameters.
  const std::string& name(int bucket) const { return names_[bucket]; }
  const RankGroups& groups() const { return groups_; }

  /// The bucket's elements; meaningful while the bucket is live.
  at::Tensor whole(int bucket) const { return states_[bucket].whole; }
  /// This rank's part, in memory until given back. Its own memory for a
  /// partitioned bucket, else a view of whole().
  at::Tensor acquire_shard(int bucket);
  /// acquire_shard() for a caller who fills all of it: the values need not be
  /// there.
  at::Tensor acquire_blank_shard(int bucket);
  void give_back_shard(int bucket, bool changed);
  /// True when acquire_shard() gives the same memory every time.
  bool keeps_shard(int bucket) const { return !states_[bucket].on_disk; }

  bool live(int bucket) const { return states_[bucket].live; }
  bool gathering(int bucket) const { return states_[bucket].fetch.has_value(); }
  /// Starts to make a released bucket whole; every rank calls it. With `exact`,
  /// the values are not rounded to small integers on the way.
  void begin_gather(int bucket, bool exact = false);
  /// Waits for the gather of a bucket; starts it if need be.
  void finish_gather(int bucket);
  /// True when the gathered values (live or under way) equal the resting ones:
  /// they were not rounded on the wire.
  bool exact(int bucket) const;
  /// True when a gather that is not exact changes values.
  bool rounds(int bucket) const {
    return wire_of(bucket) != Wire::exact && !states_[bucket].packed.defined();
  }
  /// Drops the second copies, which are old once the shards have changed.
  void forget_second_copies();
  /// Frees the elements of a partitioned bucket.
  void release(int bucket);

  /// Gives the bucket memory full of NaN after a failed gather, so that an
  /// operator that is about to run has something to read.
  void fill_missing(int bucket) noexcept;

  /// Copies this rank's part of a live bucket into its shard, after the bucket
  /// has changed on all ranks alike.
  void keep(int bucket);

  /// Brings everyone's part into whole() after the shards have changed, for
  /// buckets that stay whole. The caller waits for it before anyone reads.
  distributed::Pending publish(int bucket);

  /// Bytes of the elements that are there now.
  struct Bytes {
    std::int64_t whole = 0;   ///< buckets that stay whole
    std::int64_t shards = 0;  ///< the other buckets, with second copies
    std::int64_t on_cpu = 0;  ///< the other buckets, with buffers for the disk
    std::int64_t on_disk = 0; ///< the other buckets
    /// The other buckets while gathered or on the way, with the form in which
    /// they travel.
    std::int64_t live = 0;
  };
  Bytes bytes() const;

 private:
  struct Fetch {
    at::Tensor fresh;
    bool exact = true;
    /// False while the fetch waits for earlier fetches, and for the disk.
    bool started = false;
    bool from_second_copy = false;
    at::Tensor packed{}; ///< everyone's parts, if they travel packed
    /// This place's part of every node, in a gather of two hops.
    at::Tensor hop{};
    CopyMark copied{}; ///< set once this rank's part is in `fresh`
    std::optional<distributed::Pending> gathered{};
  };
  struct State {
    at::Tensor whole;
    at::Tensor resting; ///< this rank's shard, if partitioned and in memory
    at::Tensor packed;  ///< the shard in small integers, instead of `resting`
    at::Tensor opened;  ///< the unpacked shard, until it is given back
    /// This rank's part of the copy that its inner group shares; undefined
    /// until the first gather after an update. It rests as it travels.
    at::Tensor second_copy;
    std::optional<Fetch> fetch;
    bool partitioned = false;
    bool on_disk = false;
    bool live = true;
    bool exact = true; ///< see exact(); meaningful while live
  };

  const distributed::ProcessGroup& group_of(int bucket) const {
    return groups_.sharers(layout_->buckets()[bucket]);
  }
  Range mine(int bucket) const {
    return layout_->shard(bucket, group_of(bucket).rank());
  }
  Wire wire_of(int bucket) const;
  bool is_without_memory(const Bucket& bucket) const;
  void lay_out_whole(int bucket);
  void lay_out_shard(int bucket);
  void make_views(int bucket);
  void rest(int bucket, const at::Tensor& part);
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
  std::vector<std::string> names_; ///< by bucket
  std::deque<int> waiting_;        ///< fetches not yet started, in order
  std::int64_t in_memory_ = 0;     ///< elements of resting shards, with `disk`
  /// The bucket on disk from whose buffer the GPU is copying.
  std::optional<int> copied_from_;
};

} // namespace cairn::zero
