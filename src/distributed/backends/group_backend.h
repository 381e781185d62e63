#pragma once

#include "distributed/backends/operation.h"
#include "distributed/internal/buffer_pool.h"
#include "distributed/start/store.h"
#include "distributed/watch/connection_watch.h"

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <cairn/base/log.h>
#include <cairn/distributed/reduce_op.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::distributed {

/// The work that remains for the caller's thread once the data has moved.
struct Landing {
  std::function<void()> finish;
  /// True when the result is ready for the current stream, not for the host:
  /// `finish` orders the stream, and nobody blocks until the operation ends.
  bool on_stream = false;
  /// Called before the caller blocks: does the work in the caller's thread if
  /// no other thread has begun it.
  std::function<void()> help;
  /// True when the call does not run now: a CUDA graph has recorded it.
  bool recorded = false;
};

/// The interface of a communication library. Callers have checked the
/// arguments: every tensor is contiguous, one-dimensional, not empty and on
/// device(). Each call tells its operation when the data has moved, or throws.
class GroupBackend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Counts = std::vector<std::int64_t>; ///< elements per rank
  using OperationPtr = std::shared_ptr<Operation>;

  virtual ~GroupBackend() = default;

  virtual std::string_view name() const = 0;
  /// The device on which the backend's tensors must be; nullopt: any.
  virtual std::optional<c10::DeviceType> device() const = 0;

  virtual Landing all_reduce(OperationPtr, Tensors, ReduceOp) = 0;
  virtual Landing broadcast(OperationPtr, Tensors, int root) = 0;
  virtual Landing all_gather(OperationPtr, Tensors outputs, Tensors inputs) = 0;
  virtual Landing reduce_scatter(
      OperationPtr,
      Tensors outputs,
      Tensors inputs,
      ReduceOp) = 0;
  /// `counts` has the elements of each rank; `input` or `output` may be empty
  /// here.
  virtual Landing all_gather_uneven(
      OperationPtr,
      at::Tensor output,
      at::Tensor input,
      const Counts& counts) = 0;
  virtual Landing reduce_scatter_uneven(
      OperationPtr,
      at::Tensor output,
      at::Tensor input,
      const Counts& counts,
      ReduceOp) = 0;
  virtual Landing all_to_all(
      OperationPtr,
      at::Tensor output,
      at::Tensor input,
      const Counts& output_counts,
      const Counts& input_counts) = 0;
  virtual Landing send(OperationPtr, at::Tensor, int to) = 0;
  virtual Landing recv(OperationPtr, at::Tensor, int from) = 0;
  virtual Landing barrier(OperationPtr, std::chrono::milliseconds timeout) = 0;

  /// Lets go of peers that will never answer, because the job has failed. The
  /// backend is not used again.
  virtual void abandon() = 0;

  /// Makes memory that the library knows as its own, so that it sends tensors
  /// in it without a copy; null where the library has no such memory. Tensors
  /// in it may be sent by the groups of `others` as well, which are of the same
  /// library. All of these groups outlive the memory.
  virtual std::unique_ptr<BufferPool> make_buffer_pool(
      const std::vector<GroupBackend*>& others) {
    static_cast<void>(others);
    return nullptr;
  }
};

/// The members and the store of a group that is to be set up.
struct GroupPlace {
  std::string name;
  int rank = 0;
  int size = 1;
  std::vector<int> global_ranks;
  Store& store;
  /// Looks after the members while the library connects them.
  ConnectionWatch& watch;
  /// A group that its ranks cut into parts, all at the same time, of which this
  /// group is one. Null where the members alone make the group.
  GroupBackend* whole = nullptr;
  /// The number of the part: the same for its members, and no other part's.
  int part = 0;
};

/// Makes the backends of groups, which share threads and devices if possible.
class BackendFactory {
 public:
  virtual ~BackendFactory() = default;
  virtual std::unique_ptr<GroupBackend> make(const GroupPlace& place) = 0;
  /// Called instead of make() by a rank that is alone in its part, while the
  /// others cut `whole` into parts.
  virtual void make_none(GroupBackend& whole, ConnectionWatch& watch) {
    static_cast<void>(whole);
    static_cast<void>(watch);
  }
};

std::unique_ptr<GroupBackend> make_local_group();

struct FactoryOptions {
  /// The library's own limit. Longer than the watchdog's, which is to speak
  /// first.
  std::chrono::milliseconds timeout{};
  /// Time that ranks have to connect.
  std::chrono::milliseconds start_timeout{};
  /// True when all ranks can meet at the loopback address.
  bool one_machine = false;
  int local_rank = 0;
};
std::unique_ptr<BackendFactory> gloo_factory(const FactoryOptions& options);
std::unique_ptr<BackendFactory> nccl_factory(const FactoryOptions& options);

struct SharedMemoryOptions {
  bool wanted = true;
  std::chrono::milliseconds timeout{}; ///< limit for the ranks to agree
  Logger logger;
};
/// Makes groups of `other` whose collectives go through shared memory, where
/// all ranks of a group can reach the same memory.
std::unique_ptr<BackendFactory> shared_memory_factory(
    std::unique_ptr<BackendFactory> other,
    SharedMemoryOptions options);

/// Makes groups of `host` that take tensors on GPUs as well: the tensors are
/// copied to host memory, and the results back.
std::unique_ptr<BackendFactory> host_staged_factory(
    std::unique_ptr<BackendFactory> host);

/// Number of GPUs that NCCL groups could use: 0 where NCCL is not built in.
int visible_gpus();

} // namespace cairn::distributed
