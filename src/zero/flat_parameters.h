#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/zero/layout.h>

#include <cstdint>
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
  };

  /// Moves the data of `parameters`, which are in the layout's order, of one
  /// type and on one device, into buckets. Rank 0's values count.
  FlatParameters(
      const Layout& layout,
      std::vector<at::Tensor> parameters,
      distributed::ProcessGroup group,
      const Options& options);

  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  int buckets() const { return static_cast<int>(states_.size()); }
  /// Whether it is ever released.
  bool partitioned(int bucket) const { return states_[bucket].partitioned; }
  bool any_partitioned() const;
  /// What tells an operator's input from other tensors.
  const c10::StorageImpl* storage(int bucket) const;

  /// The bucket's elements; meaningful while it is live.
  at::Tensor whole(int bucket) const { return states_[bucket].whole; }
  /// This rank's part: aside for a partitioned bucket, else a view of whole().
  at::Tensor shard(int bucket) const;

  bool live(int bucket) const { return states_[bucket].live; }
  bool gathering(int bucket) const { return states_[bucket].fetch.has_value(); }
  /// Starts to make a released bucket whole; every rank calls it.
  void begin_gather(int bucket);
  /// Waits for that, starting it if need be.
  void finish_gather(int bucket);
  /// Lets go of a partitioned bucket's elements.
  void release(int bucket);

  /// After a failed gather: memory full of NaN, so that an operator that is
  /// about to run has something to read.
  void fill_missing(int bucket) noexcept;

  /// After the shards have changed: brings everyone's part into whole(), for
  /// buckets that stay whole. Wait for it before anyone reads.
  distributed::Pending publish(int bucket);

  /// Bytes of elements that are there now.
  struct Bytes {
    std::int64_t whole = 0;  ///< of buckets that stay whole
    std::int64_t shards = 0; ///< of the others
    std::int64_t live = 0;   ///< of the others, while gathered
  };
  Bytes bytes() const;

 private:
  struct Fetch {
    at::Tensor fresh;
    distributed::Pending pending;
  };
  struct State {
    at::Tensor whole;
    at::Tensor resting; ///< this rank's shard, if partitioned
    std::optional<Fetch> fetch;
    bool partitioned = false;
    bool live = true;
  };

  static void adopt(State& state, const at::Tensor& fresh);
  static void drop_storage(State& state);

  const Layout* layout_;
  std::vector<at::Tensor> parameters_;
  distributed::ProcessGroup group_;
  std::vector<State> states_;
};

} // namespace cairn::zero
