// The NCCL backend, through c10d. Results are ordered by CUDA streams: wait()
// makes the current stream wait, not the host. The watchdog learns from c10d's
// own thread when the GPU is done.

#include "distributed/backends/c10d_store.h"
#include "distributed/backends/calls_under_way.h"
#include "distributed/backends/dtype_bucket.h"
#include "distributed/backends/group_backend.h"
#include "distributed/backends/library_text.h"
#include "distributed/backends/nccl_buffer_pool.h"
#include "distributed/backends/nccl_connection.h"
#include "distributed/backends/wire_dtype.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <cairn/base/error.h>
#include <fmt/core.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace cairn::distributed {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;
using Tensors = GroupBackend::Tensors;
using Counts = GroupBackend::Counts;
using OperationPtr = GroupBackend::OperationPtr;

/// Views of the tensors as bytes. Moving data needs no types, so all tensors go
/// in one NCCL call.
Tensors bytes_of(const Tensors& flats) {
  Tensors result;
  for (const at::Tensor& flat : flats) {
    result.push_back(flat.view(at::kByte));
  }
  return result;
}

Counts in_bytes(Counts counts, const at::Tensor& x) {
  for (std::int64_t& count : counts) {
    count *= static_cast<std::int64_t>(x.element_size());
  }
  return counts;
}

/// The type in which NCCL reduces `dtype`. NCCL adds up half-precision values
/// well itself; a type that it cannot add up goes as the type that the other
/// backends use.
at::ScalarType nccl_dtype(at::ScalarType dtype) {
  const bool native =
      dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kBool;
  return native ? dtype : wire_dtype(dtype).value();
}

c10d::ReduceOp c10d_op(ReduceOp op, at::ScalarType dtype) {
  if (dtype == at::kBool && op == ReduceOp::product) {
    return c10d::ReduceOp::MIN; // c10d turns bool sums into "any" by itself
  }
  switch (op) {
    case ReduceOp::sum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::mean:
      return c10d::ReduceOp::AVG;
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::product:
      return c10d::ReduceOp::PRODUCT;
  }
  throw InternalError({.what = "a reduction outside the enumeration"});
}

Tensors converted(const Tensors& tensors, at::ScalarType dtype) {
  Tensors result;
  for (const at::Tensor& x : tensors) {
    result.push_back(x.to(dtype));
  }
  return result;
}

/// Copies results back into `targets` where x.to() had made a copy.
void copy_back(const Tensors& targets, const Tensors& wires) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].data_ptr() != wires[i].data_ptr()) {
      targets[i].copy_(wires[i]);
    }
  }
}

/// A communicator that is ended once: in good order, or by an abort.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  explicit Communicator(c10::intrusive_ptr<c10d::ProcessGroupNCCL> group)
      : group_(std::move(group)) {}

  c10d::ProcessGroupNCCL& group() { return *group_; }
  const NcclPtr& pointer() const { return group_; }
  const std::shared_ptr<CallsUnderWay>& calls() const { return calls_; }

  /// Kills the kernels that wait for a lost peer. Does not wait for that: the
  /// abort of one communicator frees memory, for which the GPU finishes the
  /// kernels of all others, so they must all be aborted at the same time.
  void abort() {
    const std::lock_guard lock(mutex_);
    if (!calls_->give_up()) {
      return;
    }
    aborting_ = std::thread([this] {
      try {
        group_->abort();
      } catch (const std::exception&) {
        // c10d gave up as well. The job has failed for a reason that is known.
      }
      calls_->given_up();
    });
  }

  /// Lets the GPU finish first: c10d's destructor alone would abort. Does not
  /// wait for a lost peer: the watchdog then has the calls aborted. Called
  /// before the destructor.
  void shut_down() noexcept {
    // An abort takes milliseconds. If it hangs itself, the program ends without
    // it.
    constexpr std::chrono::seconds patience(20);
    const auto end = calls_->close(patience);
    if (end == CallsUnderWay::State::closed) {
      try {
        group_->shutdown();
      } catch (const std::exception&) {
        // The destructor aborts what is left.
      }
      return;
    }
    const std::lock_guard lock(mutex_);
    if (end == CallsUnderWay::State::given_up) {
      aborting_.join();
    } else {
      aborting_.detach();
      // The thread still uses this object, which is therefore never destroyed.
      static_cast<void>(new std::shared_ptr<Communicator>(shared_from_this()));
    }
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
  /// Shared with c10d's thread, which counts the calls. That thread must not
  /// own the communicator: the destructor of c10d's group waits for it.
  const std::shared_ptr<CallsUnderWay> calls_ =
      std::make_shared<CallsUnderWay>();
  std::mutex mutex_;
  std::thread aborting_;
};

class NcclGroup final : public GroupBackend {
 public:
  /// `splitter` may be null: it is then made when the group is first cut.
  NcclGroup(NcclMembers members, NcclPtr group, NcclSplitter splitter)
      : communicator_(std::make_shared<Communicator>(std::move(group))),
        device_(members.device.index()),
        members_(std::move(members)),
        splitter_(std::move(splitter)) {}
  ~NcclGroup() override {
    communicator_->shut_down();
    if (splitter_) {
      try {
        splitter_->abort(); // it has nothing under way
      } catch (const std::exception&) {
        // c10d gave up. The process is about to end.
      }
    }
  }

  /// The communicator that groups of some of these ranks are cut out of. All
  /// ranks of the group call it.
  const NcclSplitter& splitter(ConnectionWatch& watch) {
    if (!splitter_) {
      splitter_ = make_splitter(members_, watch);
    }
    return splitter_;
  }

  const NcclMembers& members() const { return members_; }

  /// Leaves the splitter to a thread that still waits in it for lost ranks.
  void leave_splitter() { splitter_.reset(); }

  std::unique_ptr<BufferPool> make_buffer_pool(
      const std::vector<GroupBackend*>& others) override {
    std::vector<NcclPtr> groups = {communicator_->pointer()};
    for (GroupBackend* other : others) {
      groups.push_back(
          dynamic_cast<NcclGroup&>(*other).communicator_->pointer());
    }
    return nccl_buffer_pool(std::move(groups), device_);
  }

  std::string_view name() const override { return "nccl"; }
  std::optional<c10::DeviceType> device() const override {
    return c10::DeviceType::CUDA;
  }

  Landing all_reduce(OperationPtr operation, Tensors xs, ReduceOp op) override {
    std::vector<Work> works;
    Tensors wires(xs.size());
    for (const DtypeBucket& bucket : bucket_by_dtype(xs)) {
      Tensors wire = converted(bucket.pick(xs), nccl_dtype(bucket.dtype));
      for (std::size_t i = 0; i < wire.size(); ++i) {
        wires[bucket.members[i]] = wire[i];
      }
      c10d::AllreduceCoalescedOptions options;
      options.reduceOp = c10d_op(op, bucket.dtype);
      works.push_back(
          wire.size() == 1
              ? abortable(operation).allreduce(wire, options)
              : abortable(operation).allreduce_coalesced(wire, options));
    }
    return follow(operation, works, [xs, wires] { copy_back(xs, wires); });
  }

  Landing broadcast(OperationPtr operation, Tensors xs, int root) override {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    Tensors bytes = bytes_of(xs);
    if (bytes.size() == 1) {
      return follow(
          operation,
          {abortable(operation).broadcast(bytes, options)});
    }
    c10d::ProcessGroupNCCL& group = abortable(operation);
    group.startCoalescing();
    for (const at::Tensor& x : bytes) {
      Tensors one = {x};
      group.broadcast(one, options);
    }
    return follow(operation, {group.endCoalescing()});
  }

  Landing all_gather(OperationPtr operation, Tensors outputs, Tensors inputs)
      override {
    Tensors to = bytes_of(outputs);
    Tensors from = bytes_of(inputs);
    return follow(
        operation,
        {to.size() == 1
             ? abortable(operation)._allgather_base(to[0], from[0])
             : abortable(operation).allgather_into_tensor_coalesced(to, from)});
  }

  Landing reduce_scatter(
      OperationPtr operation,
      Tensors outputs,
      Tensors inputs,
      ReduceOp op) override {
    std::vector<Work> works;
    Tensors wires(outputs.size());
    for (const DtypeBucket& bucket : bucket_by_dtype(inputs)) {
      const at::ScalarType wire = nccl_dtype(bucket.dtype);
      Tensors from = converted(bucket.pick(inputs), wire);
      Tensors to = converted(bucket.pick(outputs), wire);
      for (std::size_t i = 0; i < to.size(); ++i) {
        wires[bucket.members[i]] = to[i];
      }
      c10d::ReduceScatterOptions options;
      options.reduceOp = c10d_op(op, bucket.dtype);
      works.push_back(
          to.size() == 1 ? abortable(operation)
                               ._reduce_scatter_base(to[0], from[0], options)
                         : abortable(operation).reduce_scatter_tensor_coalesced(
                               to,
                               from,
                               options));
    }
    return follow(operation, works, [outputs, wires] {
      copy_back(outputs, wires);
    });
  }

  Landing all_gather_uneven(
      OperationPtr operation,
      at::Tensor output,
      at::Tensor input,
      const Counts& counts) override {
    const Counts widths = in_bytes(counts, input);
    std::vector<Tensors> to = {output.view(at::kByte).split_with_sizes(widths)};
    Tensors from = bytes_of({input});
    return follow(operation, {abortable(operation).allgather(to, from)});
  }

  Landing reduce_scatter_uneven(
      OperationPtr operation,
      at::Tensor output,
      at::Tensor input,
      const Counts& counts,
      ReduceOp op) override {
    const at::ScalarType wire = nccl_dtype(input.scalar_type());
    std::vector<Tensors> from = {input.to(wire).split_with_sizes(counts)};
    Tensors to = converted({output}, wire);
    c10d::ReduceScatterOptions options;
    options.reduceOp = c10d_op(op, input.scalar_type());
    const Work work = abortable(operation).reduce_scatter(to, from, options);
    return follow(operation, {work}, [output, to] { copy_back({output}, to); });
  }

  Landing all_to_all(
      OperationPtr operation,
      at::Tensor output,
      at::Tensor input,
      const Counts& output_counts,
      const Counts& input_counts) override {
    Counts received = in_bytes(output_counts, input);
    Counts sent = in_bytes(input_counts, input);
    Tensors ends = bytes_of({output, input});
    return follow(
        operation,
        {abortable(operation).alltoall_base(ends[0], ends[1], received, sent)});
  }

  Landing send(OperationPtr operation, at::Tensor x, int to) override {
    Tensors bytes = bytes_of({x});
    return follow(operation, {abortable(operation).send(bytes, to, 0)});
  }

  Landing recv(OperationPtr operation, at::Tensor x, int from) override {
    Tensors bytes = bytes_of({x});
    return follow(operation, {abortable(operation).recv(bytes, from, 0)});
  }

  Landing barrier(OperationPtr operation, std::chrono::milliseconds timeout)
      override {
    c10d::BarrierOptions options;
    options.device_ids = {device_};
    options.timeout = timeout;
    return follow(operation, {abortable(operation).barrier(options)});
  }

  void abandon() override { communicator_->abort(); }

 private:
  /// c10d's group, for a call that can be aborted from now on. NCCL connects
  /// ranks in their first call of a kind, and blocks there until the others
  /// come.
  c10d::ProcessGroupNCCL& abortable(const OperationPtr& operation) {
    operation->on_abort([weak = std::weak_ptr<Communicator>(communicator_)] {
      if (const auto communicator = weak.lock()) {
        communicator->abort();
      }
    });
    return communicator_->group();
  }

  Landing follow(
      const OperationPtr& operation,
      const std::vector<Work>& works,
      std::function<void()> then = {}) {
    const bool capturing = c10::cuda::currentStreamCaptureStatusMayInitCtx() !=
        c10::cuda::CaptureStatus::None;
    if (capturing) {
      // Nothing runs while the stream is captured, and its events must not be
      // asked. The call runs whenever the graph is repeated (RecordedCalls).
      operation->part_ended("");
    } else {
      operation->expect(static_cast<int>(works.size()));
      communicator_->calls()->began(works.size());
      for (const Work& work : works) {
        work->getFutureResult()->addCallback(
            [operation,
             calls = communicator_->calls()](c10::ivalue::Future& future) {
              const std::string error = error_of(future);
              if (error.empty()) {
                calls->part_finished();
              }
              operation->part_ended(error);
            });
      }
    }
    return {
        [operation, works, then = std::move(then)] {
          try {
            for (const Work& work : works) {
              work->wait();
            }
          } catch (const std::exception& error) {
            // The watchdog finds out which rank is to blame.
            operation->expect(1);
            operation->part_ended(library_text(error));
            operation->wait();
            throw;
          }
          if (then) {
            then();
          }
        },
        /*on_stream=*/true,
        /*help=*/{},
        /*recorded=*/capturing};
  }

  static std::string error_of(c10::ivalue::Future& future) {
    if (future.hasError()) {
      return first_line(future.tryRetrieveErrorMessage());
    }
    switch (static_cast<c10d::WorkResult>(future.value().toInt())) {
      case c10d::WorkResult::SUCCESS:
        return "";
      case c10d::WorkResult::TIMEOUT:
        return "NCCL timed out";
      case c10d::WorkResult::COMM_ERROR:
        return "NCCL lost a connection";
      case c10d::WorkResult::UNKNOWN:
        break;
    }
    return "NCCL failed";
  }

  std::shared_ptr<Communicator> communicator_;
  const c10::DeviceIndex device_;
  const NcclMembers members_;
  NcclSplitter splitter_;
};

/// Tells c10d not to act on failures. It would end the process by itself when a
/// peer is lost, and our watchdog is to say first which one; its thread would
/// sleep for a minute, with a lock that calls and destructors need, so that
/// others can write traces, which our flight recorder replaces. Its limit for
/// ranks that connect is longer than that of our watch. A value that the user
/// has set stays.
void leave_failures_to_our_watchdog(std::chrono::milliseconds start_timeout) {
  const std::string connecting = std::to_string(
      std::chrono::ceil<std::chrono::seconds>(start_timeout).count() + 30);
  const std::pair<const char*, const char*> settings[] = {
      {"TORCH_NCCL_NONBLOCKING_TIMEOUT", connecting.c_str()},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"},
      {"TORCH_NCCL_ENABLE_MONITORING", "0"},
      {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
      {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "0"},
      {"TORCH_NCCL_TRACE_BUFFER_SIZE", "0"}};
  for (const auto& [name, value] : settings) {
    ::setenv(name, value, /*overwrite=*/0);
  }
}

/// Cuts a group into parts; if that fails, its splitter is of no use any more.
template <typename Cut>
auto cutting(GroupBackend& backend, Cut cut) {
  auto& whole = dynamic_cast<NcclGroup&>(backend);
  try {
    return cut(whole);
  } catch (...) {
    whole.leave_splitter();
    throw;
  }
}

class NcclFactory final : public BackendFactory {
 public:
  explicit NcclFactory(const FactoryOptions& options) : options_(options) {
    const int gpus = visible_gpus();
    if (options.local_rank >= gpus) {
      throw ConfigError(
          {.what = fmt::format(
               "the nccl backend needs a GPU for local rank {}, {} visible",
               options.local_rank,
               gpus),
           .remedy = "start at most one rank per GPU (cairn launch --share_gpu "
                     "tries out more), or use gloo"});
    }
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(options.local_rank));
    leave_failures_to_our_watchdog(options.start_timeout);
  }

  std::unique_ptr<GroupBackend> make(const GroupPlace& place) override {
    NcclMembers members{
        .name = place.name,
        .rank = place.rank,
        .size = place.size,
        .global_ranks = place.global_ranks,
        .store = dynamic_cast<C10dStore&>(place.store).raw(),
        .device = device(),
        .timeout = options_.timeout};
    place.watch.come();
    if (place.whole) {
      NcclPtr group = cutting(*place.whole, [&](NcclGroup& whole) {
        return cut_out(
            whole.splitter(place.watch),
            place.part,
            members,
            place.watch);
      });
      return std::make_unique<NcclGroup>(
          std::move(members),
          std::move(group),
          nullptr);
    }
    NcclSplitter splitter = make_splitter(members, place.watch);
    NcclPtr group = cut_out(splitter, 0, members, place.watch);
    return std::make_unique<NcclGroup>(
        std::move(members),
        std::move(group),
        std::move(splitter));
  }

  void make_none(GroupBackend& whole, ConnectionWatch& watch) override {
    watch.come();
    cutting(whole, [&](NcclGroup& group) {
      cut_none(group.splitter(watch), group.members(), watch);
      return true;
    });
  }

 private:
  at::Device device() const {
    return {
        c10::DeviceType::CUDA,
        static_cast<c10::DeviceIndex>(options_.local_rank)};
  }

  FactoryOptions options_;
};

} // namespace

std::unique_ptr<BackendFactory> nccl_factory(const FactoryOptions& options) {
  return std::make_unique<NcclFactory>(options);
}

int visible_gpus() {
  return c10::cuda::device_count();
}

} // namespace cairn::distributed
