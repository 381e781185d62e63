#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/reduce_op.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <vector>

namespace cairn::distributed {

namespace detail {
struct PendingState;
} // namespace detail

/// A collective under way. Its tensors must not be touched before wait(). The
/// destructor waits as well; an error met there is thrown by the next call on
/// the group.
class [[nodiscard]] Pending {
 public:
  explicit Pending(std::unique_ptr<detail::PendingState> state);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

  /// Blocks until the result is there and returns it; on a GPU, makes the
  /// current stream wait instead of the host. Throws CommError. May be called
  /// more than once.
  at::Tensor wait();
  /// wait() for calls that were given several tensors.
  std::vector<at::Tensor> wait_all();
  /// True when wait() would return at once.
  bool done() const;

 private:
  void finish() noexcept;

  std::unique_ptr<detail::PendingState> state_;
};

namespace detail {
struct GroupCore;
} // namespace detail

/// Some ranks of the job that talk to each other. Cheap to copy: copies share
/// one backend. In a group of one rank every call returns its input untouched,
/// so callers never ask "are we distributed?".
///
/// Every rank of a group makes the same calls in the same order. Tensors are
/// contiguous and on the backend's device. Ranks in arguments count within the
/// group. `site` is the place of the call, kept by the flight recorder.
class ProcessGroup {
 public:
  using Site = std::source_location;
  using Counts = std::vector<std::int64_t>;
  using Tensors = std::span<const at::Tensor>;

  /// A group of one.
  ProcessGroup();
  explicit ProcessGroup(std::shared_ptr<detail::GroupCore> core);

  int rank() const;
  int size() const;
  const std::string& name() const;
  /// "local", "gloo", "gloo on gpu" or "nccl".
  std::string_view backend() const;
  /// The members as ranks of the world, in the order of the group.
  const std::vector<int>& global_ranks() const;

  /// Reduces `x` in place.
  Pending all_reduce(
      at::Tensor x,
      ReduceOp op = ReduceOp::sum,
      Site site = Site::current()) const;
  /// Reduces many tensors in place for the price of one call.
  Pending all_reduce(
      Tensors xs,
      ReduceOp op = ReduceOp::sum,
      Site site = Site::current()) const;

  /// Every rank's `x`, joined on dim 0 in the order of ranks.
  Pending all_gather(at::Tensor x, Site site = Site::current()) const;
  Pending all_gather(Tensors xs, Site site = Site::current()) const;
  /// all_gather() of parts of different length: rank r brings counts[r] rows.
  Pending all_gather(
      at::Tensor x,
      const Counts& counts,
      Site site = Site::current()) const;
  Pending all_gather_into(
      at::Tensor output,
      at::Tensor x,
      Site site = Site::current()) const;

  /// This rank's part, along dim 0, of the result of all_reduce().
  Pending reduce_scatter(
      at::Tensor x,
      ReduceOp op = ReduceOp::sum,
      Site site = Site::current()) const;
  Pending reduce_scatter(
      Tensors xs,
      ReduceOp op = ReduceOp::sum,
      Site site = Site::current()) const;
  /// reduce_scatter() into parts of different length: rank r gets counts[r]
  /// rows.
  Pending reduce_scatter(
      at::Tensor x,
      const Counts& counts,
      ReduceOp op = ReduceOp::sum,
      Site site = Site::current()) const;
  Pending reduce_scatter_into(
      at::Tensor output,
      at::Tensor x,
      ReduceOp op = ReduceOp::sum,
      Site site = Site::current()) const;

  /// Overwrites `x` in place with the values of `root`.
  Pending broadcast(at::Tensor x, int root, Site site = Site::current()) const;
  Pending broadcast(Tensors xs, int root, Site site = Site::current()) const;

  /// Sends part r of dim 0 to rank r and joins the parts that arrive.
  Pending all_to_all(at::Tensor x, Site site = Site::current()) const;
  /// Sends send_counts[r] rows to rank r and gets receive_counts[r] rows from
  /// it.
  Pending all_to_all(
      at::Tensor x,
      const Counts& send_counts,
      const Counts& receive_counts,
      Site site = Site::current()) const;

  /// Sends a message. Messages between two ranks arrive in the order in which
  /// they were sent.
  Pending send(at::Tensor x, int to, Site site = Site::current()) const;
  Pending recv(at::Tensor x, int from, Site site = Site::current()) const;

  /// Returns when every rank has come to the barrier; throws after `timeout`.
  void barrier(std::chrono::milliseconds timeout, Site site = Site::current())
      const;
  /// barrier() with the job's collective timeout.
  void barrier(Site site = Site::current()) const;

  /// Guards work that all ranks must enter together (saving a checkpoint): if
  /// some ranks do not come within `timeout`, throws CommError naming them.
  void require_all(
      const std::string& what,
      std::chrono::milliseconds timeout = std::chrono::seconds(30),
      Site site = Site::current()) const;

  /// Ends the job because this rank cannot go on with `what` the group does
  /// together. The ranks that wait for this one, now or later, fail with `why`
  /// instead of a timeout; so do the calls of this rank that are under way.
  void fail(
      const std::string& what,
      const std::string& why,
      Site site = Site::current()) const noexcept;

  /// A group of some members, in the given order. Only those members call it,
  /// each with the same ranks and name.
  ProcessGroup subgroup(
      const std::vector<int>& ranks,
      const std::string& name = "") const;
  /// A group of the ranks that give the same color. Every rank calls it.
  ProcessGroup split(std::int64_t color, Site site = Site::current()) const;

 private:
  friend class Agreement;
  std::shared_ptr<detail::GroupCore> core_;
};

} // namespace cairn::distributed
