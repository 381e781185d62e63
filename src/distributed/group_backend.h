#pragma once

#include "operation.h"
#include "store.h"

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

/// What remains to be done, in the caller's thread, once the data has moved.
struct Landing {
  std::function<void()> finish;
  /// The result is ready for the current stream, not for the host: `finish`
  /// orders the stream, and nobody blocks until the operation ends.
  bool on_stream = false;
  /// Called before blocking: the work may be done in the caller's thread, if no
  /// other has begun it.
  std::function<void()> help;
};

/// What a communication library has to offer. Callers have checked the
/// arguments: every tensor is contiguous, one-dimensional, not empty and on
/// device(). Each call tells the operation when it is over (or throws).
class GroupBackend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Counts = std::vector<std::int64_t>; ///< elements, one per rank
  using OperationPtr = std::shared_ptr<Operation>;

  virtual ~GroupBackend() = default;

  virtual std::string_view name() const = 0;
  /// nullopt: any.
  virtual std::optional<c10::DeviceType> device() const = 0;

  virtual Landing all_reduce(OperationPtr, Tensors, ReduceOp) = 0;
  virtual Landing broadcast(OperationPtr, Tensors, int root) = 0;
  virtual Landing all_gather(OperationPtr, Tensors outputs, Tensors inputs) = 0;
  virtual Landing reduce_scatter(
      OperationPtr,
      Tensors outputs,
      Tensors inputs,
      ReduceOp) = 0;
  /// `counts` per rank; `input` or `output` may be empty here.
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

  /// The job has failed: let go of peers that will never answer. The backend
  /// is not used again.
  virtual void abandon() = 0;
};

/// Where a group is to be set up.
struct GroupPlace {
  std::string name;
  int rank = 0;
  int size = 1;
  std::vector<int> global_ranks;
  Store& store;
};

/// Makes groups that share what can be shared (threads, devices).
class BackendFactory {
 public:
  virtual ~BackendFactory() = default;
  virtual std::unique_ptr<GroupBackend> make(const GroupPlace& place) = 0;
};

std::unique_ptr<GroupBackend> make_local_group();

struct FactoryOptions {
  /// Above the watchdog's own, which is to speak first.
  std::chrono::milliseconds timeout{};
  bool one_machine = false; ///< all ranks can meet at the loopback address
  int local_rank = 0;
};
std::unique_ptr<BackendFactory> gloo_factory(const FactoryOptions& options);
std::unique_ptr<BackendFactory> nccl_factory(const FactoryOptions& options);

struct SharedMemoryOptions {
  bool wanted = true;
  std::chrono::milliseconds timeout{}; ///< for the ranks to agree on it
  Logger logger;
};
/// Groups of `other`, whose collectives go through shared memory where all
/// ranks of a group can reach the same.
std::unique_ptr<BackendFactory> shared_memory_factory(
    std::unique_ptr<BackendFactory> other,
    SharedMemoryOptions options);

/// Groups of `host`, for tensors on GPUs as well: copied to host memory first,
/// and the result back.
std::unique_ptr<BackendFactory> host_staged_factory(
    std::unique_ptr<BackendFactory> host);

/// GPUs that NCCL groups could use: 0 where it is not built in.
int visible_gpus();

} // namespace cairn::distributed
