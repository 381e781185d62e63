#pragma once

#include "zero/packed_reduction.h"
#include "zero/rank_groups.h"
#include "zero/side_copies.h"

#include <ATen/core/Tensor.h>
#include <cairn/distributed/pending.h>
#include <cairn/zero/layout.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

namespace cairn::zero {

/// Takes gradients from autograd as they appear, lays them into buckets, and
/// sums the buckets over the ranks while backward still runs. A pass is
/// begin(), backward, end(); any number of passes add up until clear().
///
/// Buckets start in the layout's order on every rank, each as soon as all its
/// gradients are there. How often a parameter's gradient appears in a pass
/// (more than once under nested activation checkpointing, never if unused) is
/// learnt from the pass before, and taken as once in the first; whatever comes
/// after its bucket has left is summed in a second round, which the ranks agree
/// on in finish().
///
/// Where several groups of ranks have a copy of the shards each, gradients are
/// summed within the group in every pass and between the owners of the same
/// shard in the last.
class GradientReducer {
 public:
  struct Options {
    /// Each rank gets the sum of its shard only (stage 1 on).
    bool shards = false;
    /// Whole buckets live only until they are reduced, in every pass (stage 2
    /// on); otherwise they add up over the passes and are reduced in the last.
    bool transient = false;
    at::ScalarType accumulate = at::kFloat;
    at::ScalarType communicate = at::kFloat;
    /// Every gradient is multiplied by it before the sum.
    double before = 1;
    bool overlap = true; ///< false: reduce when backward is over
    /// The sums leave the device for host memory, while backward still runs.
    bool rest_on_cpu = false;
    bool pin = true; ///< that memory
    /// With `shards`: how gradients travel to their owners.
    Wire wire = Wire::exact;
    /// Asked when a gradient appears outside of a pass: true after it has begun
    /// one, false to leave the gradient to autograd. Unset: an error.
    std::function<bool()> outside_pass{};
  };

  GradientReducer(
      const Layout& layout,
      std::vector<at::Tensor> parameters,
      RankGroups groups,
      const Options& options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// `last`: after this pass the gradients are wanted.
  void begin(bool last);
  void end();
  /// Right after begin(): gradients that are views of the buckets, left there
  /// by an earlier pass, count in this one.
  void keep_present();
  /// After an exception in backward: forgets everything since clear().
  void abandon();

  /// Waits until the sums are there; every rank calls it after the last pass.
  void finish();
  /// This rank's part of the summed gradients: its shard, or with `shards` off
  /// the whole bucket. In the accumulation type, or that of communication where
  /// it is exact; padding is zero.
  at::Tensor gradient(int bucket) const;
  /// The weights have been updated: the next gradients start from nothing.
  void clear();

  /// Memory held now.
  std::int64_t bytes() const;
  std::int64_t bytes_on_cpu() const; ///< with rest_on_cpu
  const Options& options() const { return options_; }

 private:
  struct Hook;
  struct InFlight {
    at::Tensor sent;
    at::Tensor received; ///< with `shards`
    std::optional<distributed::Pending> pending{};
    std::optional<PackedReduction> packed{}; ///< instead of the two before
    bool crosses = false; ///< to the other copies, when it has arrived
    void wait();
  };
  /// A shard's sum on its way over the copies.
  struct Crossing {
    at::Tensor sent;
    distributed::Pending pending;
  };
  /// With rest_on_cpu: what one bucket has there, kept from step to step.
  struct HostPart {
    at::Tensor arriving; ///< the last sum, there when `arrived`
    at::Tensor sum;      ///< of the passes before, in the accumulation type
    CopyMark arrived{};
    bool under_way = false;
  };
  struct State {
    at::Tensor whole;   ///< what has appeared here
    at::Tensor reduced; ///< with `shards`
    at::Tensor latecomers;
    std::optional<InFlight> in_flight;
    std::optional<Crossing> crossing;
    HostPart host;
    int missing = 0; ///< parameters that are to appear yet, in this pass
    bool launched = false;
  };
  struct Rows {
    at::Tensor ids;
    at::Tensor values;
  };
  struct Parameter {
    at::Tensor tensor;
    int expected = 1; ///< times in a pass; a guess before the first
    int seen = 0;     ///< in this pass
    bool written = false;
    bool lent = false;      ///< its place in the bucket is being written
    std::vector<Rows> rows; ///< to add once that is done
  };

  /// Of whole buckets.
  at::ScalarType gradient_type() const {
    return options_.transient ? options_.communicate : options_.accumulate;
  }

  bool has_copies() const {
    return options_.shards && groups_.replicas.size() > 1;
  }

  bool begins_pass(int parameter);
  void take(int parameter);
  at::Tensor lend(int parameter);
  bool keep_rows(int parameter, Rows rows);
  void add_kept_rows(State& state, int parameter);
  at::Tensor view_of(State& state, int parameter);
  void add(State& state, int parameter, const at::Tensor& gradient);
  void add_late(State& state, int parameter, const at::Tensor& gradient);
  void launch_ready(bool all);
  void launch(int bucket);
  InFlight send(int bucket, const at::Tensor& whole);
  void harvest(int bucket);
  void keep_on_device(int bucket, const at::Tensor& received);
  void send_to_host(State& state, const at::Tensor& received);
  void settle(State& state, bool more_to_come);
  void harvest_down_to(int still_in_flight);
  void begin_crossing(State& state);
  void finish_crossing(State& state);
  void fill_gaps(int bucket);
  void reduce_late(int bucket);
  void forget();
  void reset_pass();

  const Layout* layout_;
  RankGroups groups_;
  Options options_;
  SideCopies copies_;
  std::vector<Parameter> parameters_;
  std::vector<State> states_; ///< of trainable buckets, which come first
  std::vector<int> in_order_; ///< in flight, oldest first
  at::Tensor late_flags_;
  std::optional<distributed::Pending> late_pending_;
  std::mutex mutex_; ///< hooks run on autograd's threads
  int next_ = 0;     ///< bucket to launch
  std::atomic<bool> in_pass_ = false;
  bool reducing_ = false; ///< this pass reduces
  bool last_ = false;
};

} // namespace cairn::zero
