// The shared-memory backend for ranks on one machine. All collectives but
// all_to_all go through shared memory; all_to_all and messages between two
// ranks go to the backend behind it.

#include "base/internal/stable_hash.h"
#include "distributed/backends/dtype_bucket.h"
#include "distributed/backends/group_backend.h"
#include "distributed/shared_memory/shared_memory_collectives.h"
#include "distributed/shared_memory/shared_memory_meeting.h"
#include "distributed/shared_memory/shared_memory_queue.h"

#include <fmt/format.h>

#include <utility>

namespace cairn::distributed {
namespace {

using Tensors = GroupBackend::Tensors;
using Counts = GroupBackend::Counts;
using OperationPtr = GroupBackend::OperationPtr;

std::size_t bytes_in(const at::Tensor& x) {
  return static_cast<std::size_t>(x.nbytes());
}

Spans spans_of(const Tensors& tensors) {
  Spans result;
  for (const at::Tensor& x : tensors) {
    result.add(x.data_ptr(), bytes_in(x));
  }
  return result;
}

/// The share of each member in `wholes`. Every tensor holds one part per
/// member, one after the other; the parts of one member together are its share.
std::vector<Spans> shares_of(const Tensors& wholes, int members) {
  const auto count = static_cast<std::size_t>(members);
  std::vector<Spans> result(count);
  for (const at::Tensor& whole : wholes) {
    const std::size_t width = bytes_in(whole) / count;
    auto* const data = static_cast<std::byte*>(whole.data_ptr());
    for (std::size_t member = 0; member < count; ++member) {
      result[member].add(data + member * width, width);
    }
  }
  return result;
}

std::vector<Spans> shares_of(const at::Tensor& whole, const Counts& counts) {
  auto* data = static_cast<std::byte*>(whole.data_ptr());
  std::vector<Spans> result;
  for (const std::int64_t count : counts) {
    const std::size_t width =
        static_cast<std::size_t>(count * whole.element_size());
    result.emplace_back().add(data, width);
    data += width;
  }
  return result;
}

Reduction reduction(const at::Tensor& x, ReduceOp op) {
  return {
      reduce_kernel(x.scalar_type(), op),
      static_cast<std::size_t>(x.element_size())};
}

/// Hash of the facts that the members must agree on.
std::uint64_t signature(const CollectiveRecord& record) {
  return stable_hash(fmt::format(
      "{} {} {} {} [{}]",
      record.sequence,
      record.operation,
      record.detail,
      record.dtype,
      fmt::join(record.sizes, ",")));
}

class SharedMemoryGroup final : public GroupBackend {
 public:
  SharedMemoryGroup(
      std::unique_ptr<GroupBackend> other,
      std::unique_ptr<SharedMemoryChannel> channel)
      : other_(std::move(other)), channel_(std::move(channel)) {}
  ~SharedMemoryGroup() override { channel_->abandon(); }

  std::string_view name() const override { return other_->name(); }
  std::optional<c10::DeviceType> device() const override {
    return other_->device();
  }

  Landing all_reduce(OperationPtr operation, Tensors xs, ReduceOp op) override {
    return run(
        std::move(operation),
        [=, buckets = bucket_by_dtype(xs)](SharedMemoryChannel& channel) {
          for (const DtypeBucket& bucket : buckets) {
            const Tensors members = bucket.pick(xs);
            distributed::all_reduce(
                channel,
                spans_of(members),
                reduction(members[0], op));
          }
        });
  }

  Landing broadcast(OperationPtr operation, Tensors xs, int root) override {
    return run(std::move(operation), [=](SharedMemoryChannel& channel) {
      distributed::broadcast(channel, spans_of(xs), root);
    });
  }

  Landing all_gather(OperationPtr operation, Tensors outputs, Tensors inputs)
      override {
    return run(std::move(operation), [=](SharedMemoryChannel& channel) {
      distributed::all_gather(
          channel,
          shares_of(outputs, channel.members()),
          spans_of(inputs));
    });
  }

  Landing reduce_scatter(
      OperationPtr operation,
      Tensors outputs,
      Tensors inputs,
      ReduceOp op) override {
    return run(
        std::move(operation),
        [=, buckets = bucket_by_dtype(inputs)](SharedMemoryChannel& channel) {
          for (const DtypeBucket& bucket : buckets) {
            const Tensors members = bucket.pick(inputs);
            distributed::reduce_scatter(
                channel,
                spans_of(bucket.pick(outputs)),
                shares_of(members, channel.members()),
                reduction(members[0], op));
          }
        });
  }

  Landing all_gather_uneven(
      OperationPtr operation,
      at::Tensor output,
      at::Tensor input,
      const Counts& counts) override {
    return run(std::move(operation), [=](SharedMemoryChannel& channel) {
      distributed::all_gather(
          channel,
          shares_of(output, counts),
          spans_of({input}));
    });
  }

  Landing reduce_scatter_uneven(
      OperationPtr operation,
      at::Tensor output,
      at::Tensor input,
      const Counts& counts,
      ReduceOp op) override {
    return run(std::move(operation), [=](SharedMemoryChannel& channel) {
      distributed::reduce_scatter(
          channel,
          spans_of({output}),
          shares_of(input, counts),
          reduction(input, op));
    });
  }

  Landing barrier(OperationPtr operation, std::chrono::milliseconds) override {
    return run(std::move(operation), [](SharedMemoryChannel& channel) {
      distributed::barrier(channel);
    });
  }

  Landing all_to_all(
      OperationPtr operation,
      at::Tensor output,
      at::Tensor input,
      const Counts& output_counts,
      const Counts& input_counts) override {
    return other_->all_to_all(
        std::move(operation),
        std::move(output),
        std::move(input),
        output_counts,
        input_counts);
  }
  Landing send(OperationPtr operation, at::Tensor x, int to) override {
    return other_->send(std::move(operation), std::move(x), to);
  }
  Landing recv(OperationPtr operation, at::Tensor x, int from) override {
    return other_->recv(std::move(operation), std::move(x), from);
  }

  void abandon() override {
    channel_->abandon();
    other_->abandon();
  }

 private:
  template <typename Work>
  Landing run(OperationPtr operation, Work work) {
    operation->on_abort([channel = channel_] { channel->abandon(); });
    queue_.add(operation, [this, work = std::move(work), &it = *operation] {
      channel_->begin(signature(it.record()));
      work(*channel_);
    });
    return {.help = [this, operation] { queue_.help(*operation); }};
  }

  const std::unique_ptr<GroupBackend> other_;
  const std::shared_ptr<SharedMemoryChannel> channel_;
  SharedMemoryQueue queue_; ///< last: its thread uses the members above
};

class SharedMemoryFactory final : public BackendFactory {
 public:
  SharedMemoryFactory(
      std::unique_ptr<BackendFactory> other,
      SharedMemoryOptions options)
      : other_(std::move(other)), options_(std::move(options)) {}

  std::unique_ptr<GroupBackend> make(const GroupPlace& place) override {
    auto other = other_->make(place);
    if (place.size == 1) {
      return other; // no other rank to share memory with
    }
    SharedMemoryOutcome outcome =
        meet_in_shared_memory(place, options_.wanted, options_.timeout);
    if (!outcome.channel) {
      options_.logger.debug(
          "group {} goes through {}, not shared memory: {}",
          place.name,
          other->name(),
          outcome.why_not);
      return other;
    }
    options_.logger.debug(
        "group {} goes through shared memory, {} KiB for {} ranks",
        place.name,
        SharedMemoryChannel::segment_bytes(place.size) >> 10,
        place.size);
    return std::make_unique<SharedMemoryGroup>(
        std::move(other),
        std::move(outcome.channel));
  }

 private:
  std::unique_ptr<BackendFactory> other_;
  SharedMemoryOptions options_;
};

} // namespace

std::unique_ptr<BackendFactory> shared_memory_factory(
    std::unique_ptr<BackendFactory> other,
    SharedMemoryOptions options) {
  return std::make_unique<SharedMemoryFactory>(
      std::move(other),
      std::move(options));
}

} // namespace cairn::distributed
