#pragma once

#include "distributed/internal/buffer_pool.h"
#include "kernels/internal/gradient_place.h"
#include "zero/internal/layout.h"
#include "zero/internal/rank_groups.h"
#include "zero/reduce/packed_reduction.h"
#include "zero/reduce/side_copies.h"

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <torch/csrc/autograd/function_hook.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace cairn::zero {

/// Takes gradients from autograd as they appear, lays them into buckets, and
/// sums the buckets over the ranks while backward still runs. A pass is
/// begin(), backward, end(). Any number of passes add up until clear().
///
/// Buckets start in the layout's order on every rank, each as soon as all its
/// gradients are there. The number of times that a parameter's gradient appears
/// in a pass (more than once under nested activation checkpointing, never if
/// unused) is learnt from the pass before, and taken as once in the first pass.
/// The last pass of an update has its own numbers: in a pipeline the gradients
/// of tied weights come from another stage then.
/// A gradient that comes after its bucket has left is summed in a second round,
/// if any rank has such a latecomer. Whether one has is known to that rank
/// alone, so the others must hear of it before every update; with
/// Options::same_use they need not.
///
/// libtorch keeps one hook per parameter for gradients that have accumulated.
/// A program may set its own there: it is called from within this one, with the
/// gradient in `grad()`, and nothing else changes.
///
/// Where several groups of ranks have a copy of the shards each, gradients are
/// summed within the group in every pass, and between the owners of the same
/// shard in the last pass.
class GradientReducer {
 public:
  struct Options {
    /// True when each rank gets the sum of its shard only (stage 1 on).
    bool shards = false;
    /// True when whole buckets live only until they are reduced, in every pass
    /// (stage 2 on). Otherwise they add up over the passes and are reduced in
    /// the last.
    bool transient = false;
    at::ScalarType accumulate = at::kFloat;
    at::ScalarType communicate = at::kFloat;
    /// Factor of every gradient before the sum.
    double before = 1;
    bool overlap = true; ///< false: reduce when backward is over
    /// True when the sums leave the device for host memory, while backward
    /// still runs.
    bool rest_on_cpu = false;
    bool pin = true; ///< page-locks that memory
    /// The caller's promise that after the first update no gradient appears
    /// more often in a pass than in one of its kind before. A rank that finds
    /// it broken throws.
    bool same_use = false;
    /// The form in which gradients travel to their owners. Only with `shards`.
    Wire wire = Wire::exact;
    /// Memory of buckets that are sent; null: any.
    std::shared_ptr<distributed::BufferPool> buffers{};
    /// Called when a gradient appears outside of a pass. Returns true after it
    /// has begun a pass, false to leave the gradient to autograd. Unset: an
    /// error.
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

  /// Begins a pass. `last`: the gradients are wanted after this pass.
  void begin(bool last);
  void end();
  /// Puts this object's hooks back where the program has set hooks of its own,
  /// which are called from within them from then on. begin() does it; a caller
  /// whose passes begin with their first gradient does it before backward.
  void keep_hooks();
  /// Keeps the memory of the sums from update to update, so that a recorded
  /// pass finds it where it was.
  void keep_sums() { keeps_sums_ = true; }
  /// Instead of begin(), backward, end() and finish(): a pass that was recorded
  /// has been repeated, and has put its gradients where the recorded one had
  /// them.
  void count_repeated(bool last);
  /// Counts gradients that an earlier pass left as views of the buckets in this
  /// pass. Called right after begin().
  void keep_present();
  /// Forgets everything since clear(), after an exception in backward.
  void abandon();

  /// Waits until the sums are there, latecomers included. Every rank calls it
  /// after the last pass.
  void finish();
  /// finish() in steps, for a caller who lets the ranks agree on latecomers in
  /// a message that it sends anyway. Waits for the sums without latecomers;
  /// also called at the end of every pass that is recorded as a CUDA graph.
  void finish_on_time();
  /// True when this rank has latecomers.
  bool has_latecomers() const;
  /// False when no rank has latecomers. All ranks get the same answer.
  bool may_have_latecomers() const;
  /// Sums the latecomers of all ranks; every rank calls it if one has some.
  /// Returns a tensor for each bucket that has some anywhere, for
  /// add_latecomers().
  std::vector<at::Tensor> sum_latecomers();
  void add_latecomers(int bucket, const at::Tensor& sum);
  /// This rank's part of the summed gradients: its shard, or with `shards` off
  /// the whole bucket. The type is the accumulation type, or the communication
  /// type where a single sum arrived on the host, so that nothing is lost.
  /// Padding is zero.
  at::Tensor gradient(int bucket) const;
  /// Makes the next gradients start from nothing, after the weights were
  /// updated.
  void clear();

  /// Bytes of device memory held now.
  std::int64_t bytes() const;
  /// Bytes of host memory held now, with rest_on_cpu.
  std::int64_t bytes_on_cpu() const;
  const Options& options() const { return options_; }

 private:
  struct Hook;
  struct InFlight {
    at::Tensor sent;
    at::Tensor received; ///< with `shards`
    std::optional<distributed::Pending> pending{};
    /// Set instead of `sent` and `pending`; its end fills `received`.
    std::optional<PackedReduction> packed{};
    bool crosses = false; ///< goes on to the other copies when it has arrived
    void wait();
  };
  /// A shard's sum on its way over the copies.
  struct Crossing {
    at::Tensor sent;
    distributed::Pending pending;
  };
  /// Host memory of one bucket with rest_on_cpu, kept from step to step.
  struct HostPart {
    at::Tensor arriving; ///< the last sum, complete once `arrived`
    at::Tensor sum;      ///< sum of the passes before, in the accumulation type
    CopyMark arrived{};
    bool under_way = false;
  };
  struct State {
    at::Tensor whole;   ///< gradients of this rank
    at::Tensor reduced; ///< sum of the shard, with `shards`
    at::Tensor kept;    ///< memory of `reduced` after keep_sums()
    at::Tensor latecomers;
    std::optional<InFlight> in_flight;
    std::optional<Crossing> crossing;
    HostPart host;
    /// Parameters that are yet to appear in this pass.
    int missing = 0;
    bool launched = false;
  };
  struct Rows {
    at::Tensor ids;
    at::Tensor values;
  };
  struct Parameter {
    at::Tensor tensor;
    /// Times that the gradient appears in passes that are not the last, and in
    /// the last; a guess before the first pass.
    std::array<int, 2> uses{1, 1};
    int expected = 1; ///< times that this pass is expected to have
    int seen = 0;     ///< times in this pass
    bool written = false;
    bool lent = false;       ///< its place in the bucket is being written
    std::vector<Rows> rows;  ///< to add once the place is written
    bool of_program = false; ///< its hook has the program's hook within it
  };

  bool has_copies() const {
    return options_.shards && groups_.replicas.size() > 1;
  }

  bool keep_hook(int parameter);
  void take_missed();
  bool begins_pass(int parameter);
  void take(int parameter);
  kernels::GradientPlace::Sum lend(int parameter, bool to_add_to);
  void arrived(int parameter);
  void count_arrival(int parameter);
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
  Range mine(int bucket) const;
  bool is_recorded() const;
  /// The place of this pass's kind in Parameter::uses.
  std::size_t kind() const { return last_ ? 1 : 0; }
  void learn_uses();
  void refuse_latecomers(bool recorded) const;
  at::Tensor late_sum(int bucket);
  void forget();
  void reset_pass();

  const Layout* layout_;
  RankGroups groups_;
  Options options_;
  SideCopies copies_;
  std::vector<Parameter> parameters_;
  std::vector<State> states_; ///< trainable buckets, which come first
  std::vector<int> in_order_; ///< buckets in flight, oldest first
  mutable std::mutex mutex_;  ///< hooks run on autograd's threads
  int next_ = 0;              ///< bucket to launch next
  std::atomic<bool> in_pass_ = false;
  bool reducing_ = false; ///< this pass reduces
  /// True where a pass of this kind has shown how often gradients appear.
  std::array<bool, 2> learnt_{};
  bool guessed_ = false; ///< buckets left since clear() before that was known
  bool last_ = false;
  bool keeps_sums_ = false;
};

} // namespace cairn::zero
