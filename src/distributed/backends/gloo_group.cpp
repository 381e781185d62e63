// The Gloo backend, through c10d. The only file that includes
// ProcessGroupGloo.hpp: the wheel ships it without Gloo's own headers, and
// gloo_headers/ beside this file stands in for them. All Gloo objects are held
// by pointer, so their layout does not matter here; we never make or copy one.

#include "base/internal/stable_hash.h"
#include "distributed/backends/c10d_store.h"
#include "distributed/backends/dtype_bucket.h"
#include "distributed/backends/group_backend.h"
#include "distributed/backends/library_text.h"
#include "distributed/backends/wire_dtype.h"
#include "distributed/watch/quiet_pipes.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <c10/core/GradMode.h>
#include <cairn/base/error.h>
#include <fmt/core.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>

namespace cairn::distributed {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;
using Tensors = GroupBackend::Tensors;
using Counts = GroupBackend::Counts;
using OperationPtr = GroupBackend::OperationPtr;

/// A view of the tensor as bytes. Gloo knows few types, but moving data needs
/// none.
at::Tensor bytes_of(const at::Tensor& flat) {
  return flat.view(at::kByte);
}

Tensors bytes_of(const Tensors& flats) {
  Tensors result;
  for (const at::Tensor& flat : flats) {
    result.push_back(bytes_of(flat));
  }
  return result;
}

at::Tensor empty_like_bytes(std::int64_t size) {
  return at::empty({size}, at::TensorOptions().dtype(at::kByte));
}

/// The operation to run on the wire type. Booleans are bytes 0 and 1 on the
/// wire: adding them up would leave that range.
ReduceOp as_reduced(ReduceOp op, at::ScalarType dtype) {
  if (dtype == at::kBool && op == ReduceOp::sum) {
    return ReduceOp::max;
  }
  if (dtype == at::kBool && op == ReduceOp::product) {
    return ReduceOp::min;
  }
  return op;
}

c10d::ReduceOp::RedOpType c10d_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean: // divided when the result lands
      return c10d::ReduceOp::SUM;
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::product:
      return c10d::ReduceOp::PRODUCT;
  }
  throw InternalError({.what = "a reduction outside the enumeration"});
}

void accumulate(at::Tensor& sum, const at::Tensor& x, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
      sum.add_(x);
      return;
    case ReduceOp::max:
      at::maximum_out(sum, sum, x);
      return;
    case ReduceOp::min:
      at::minimum_out(sum, sum, x);
      return;
    case ReduceOp::product:
      sum.mul_(x);
      return;
  }
}

/// Reduces the rows [rank, :] of `parts` into `output`, in the order of ranks:
/// the same bits on every run.
void reduce_rows(at::Tensor output, const at::Tensor& parts, ReduceOp op) {
  const at::ScalarType wire = wire_dtype(output.scalar_type()).value();
  const ReduceOp how = as_reduced(op, output.scalar_type());
  at::Tensor sum = parts[0].to(wire);
  for (std::int64_t rank = 1; rank < parts.size(0); ++rank) {
    accumulate(sum, parts[rank].to(wire), how);
  }
  if (op == ReduceOp::mean) {
    sum.div_(parts.size(0));
  }
  output.copy_(sum);
}

/// Copies the columns of `matrix` [rows, sum of widths] into flats of rows x
/// width.
void scatter_columns(const at::Tensor& matrix, const Tensors& flats) {
  const std::int64_t rows = matrix.size(0);
  std::int64_t column = 0;
  for (const at::Tensor& flat : flats) {
    const std::int64_t width = flat.numel() / rows;
    flat.view({rows, width}).copy_(matrix.narrow(1, column, width));
    column += width;
  }
}

/// The reverse of scatter_columns(): [rows, sum of widths] out of flats of rows
/// x width.
at::Tensor join_columns(const Tensors& flats, std::int64_t rows) {
  if (flats.size() == 1) {
    return flats[0].view({rows, -1});
  }
  Tensors blocks;
  for (const at::Tensor& flat : flats) {
    blocks.push_back(flat.view({rows, -1}));
  }
  return at::cat(blocks, 1);
}

class GlooGroup final : public GroupBackend {
 public:
  GlooGroup(c10::intrusive_ptr<c10d::ProcessGroupGloo> group, int size)
      : group_(std::move(group)), size_(size) {}

  std::string_view name() const override { return "gloo"; }
  std::optional<c10::DeviceType> device() const override {
    return c10::DeviceType::CPU;
  }

  Landing all_reduce(OperationPtr operation, Tensors xs, ReduceOp op) override {
    std::vector<Work> works;
    std::vector<std::function<void()>> landings;
    for (const DtypeBucket& bucket : bucket_by_dtype(xs)) {
      const Tensors members = bucket.pick(xs);
      const at::Tensor own = members[0];
      const at::Tensor wire = join_columns(members, 1)
                                  .view({-1})
                                  .to(wire_dtype(bucket.dtype).value());
      c10d::AllreduceOptions options;
      options.reduceOp = c10d_op(as_reduced(op, bucket.dtype));
      Tensors buffer = {wire};
      works.push_back(group_->allreduce(buffer, options));
      landings.push_back([=, size = size_] {
        if (op == ReduceOp::mean) {
          at::Tensor(wire).div_(size);
        }
        if (wire.data_ptr() != own.data_ptr()) {
          scatter_columns(wire.view({1, -1}), members);
        }
      });
    }
    follow(operation, works);
    return {[landings] {
      for (const auto& land : landings) {
        land();
      }
    }};
  }

  Landing broadcast(OperationPtr operation, Tensors xs, int root) override {
    const Tensors bytes = bytes_of(xs);
    const at::Tensor buffer = join_columns(bytes, 1).view({-1});
    c10d::BroadcastOptions options;
    options.rootRank = root;
    Tensors buffers = {buffer};
    follow(operation, {group_->broadcast(buffers, options)});
    return {[=] {
      if (bytes.size() > 1) {
        scatter_columns(buffer.view({1, -1}), bytes);
      }
    }};
  }

  Landing all_gather(OperationPtr operation, Tensors outputs, Tensors inputs)
      override {
    const Tensors bytes = bytes_of(outputs);
    at::Tensor input = join_columns(bytes_of(inputs), 1).view({-1});
    at::Tensor output =
        bytes.size() == 1 ? bytes[0] : empty_like_bytes(input.numel() * size_);
    if (operation->record().detail.empty()) {
      follow(operation, {group_->_allgather_base(output, input)});
    } else {
      follow_named(operation, group_->_allgather_base(output, input));
    }
    return {[=, size = size_] {
      if (bytes.size() > 1) {
        scatter_columns(output.view({size, -1}), bytes);
      }
    }};
  }

  /// Exchanges the parts and adds them up here, which moves half as much as
  /// Gloo's own reduce_scatter: that is an all_reduce of everything.
  Landing reduce_scatter(
      OperationPtr operation,
      Tensors outputs,
      Tensors inputs,
      ReduceOp op) override {
    std::vector<Work> works;
    std::vector<std::function<void()>> landings;
    for (const DtypeBucket& bucket : bucket_by_dtype(inputs)) {
      const at::Tensor sent = join_columns(bucket.pick(inputs), size_);
      const at::Tensor parts = at::empty_like(sent);
      works.push_back(exchange(parts.view({-1}), sent.view({-1}), {}, {}));
      const Tensors targets = bucket.pick(outputs);
      landings.push_back([=] {
        if (targets.size() == 1) {
          reduce_rows(targets[0], parts, op);
          return;
        }
        const at::Tensor reduced = at::empty({parts.size(1)}, parts.options());
        reduce_rows(reduced, parts, op);
        scatter_columns(reduced.view({1, -1}), targets);
      });
    }
    follow(operation, works);
    return {[landings] {
      for (const auto& land : landings) {
        land();
      }
    }};
  }

  /// Pads every part to the longest one: Gloo gathers equal parts only.
  Landing all_gather_uneven(
      OperationPtr operation,
      at::Tensor output,
      at::Tensor input,
      const Counts& counts) override {
    const std::int64_t longest =
        *std::max_element(counts.begin(), counts.end());
    const at::Tensor padded = at::empty({longest}, input.options());
    padded.narrow(0, 0, input.numel()).copy_(input);
    const at::Tensor parts = at::empty({size_ * longest}, input.options());
    at::Tensor to = bytes_of(parts);
    at::Tensor from = bytes_of(padded);
    follow(operation, {group_->_allgather_base(to, from)});
    return {[=] {
      std::int64_t at = 0;
      for (std::size_t rank = 0; rank < counts.size(); ++rank) {
        const auto begin = static_cast<std::int64_t>(rank) * longest;
        output.narrow(0, at, counts[rank])
            .copy_(parts.narrow(0, begin, counts[rank]));
        at += counts[rank];
      }
    }};
  }

  Landing reduce_scatter_uneven(
      OperationPtr operation,
      at::Tensor output,
      at::Tensor input,
      const Counts& counts,
      ReduceOp op) override {
    const at::Tensor parts =
        at::empty({size_, output.numel()}, output.options());
    const Counts received(counts.size(), output.numel());
    follow(operation, {exchange(parts.view({-1}), input, received, counts)});
    return {[=] {
      if (output.numel() > 0) {
        reduce_rows(output, parts, op);
      }
    }};
  }

  Landing all_to_all(
      OperationPtr operation,
      at::Tensor output,
      at::Tensor input,
      const Counts& output_counts,
      const Counts& input_counts) override {
    follow(operation, {exchange(output, input, output_counts, input_counts)});
    return {};
  }

  // send and recv write to a socket in this thread. The other calls are handed
  // to threads that never see SIGPIPE.
  Landing send(OperationPtr operation, at::Tensor x, int to) override {
    const QuietPipes quiet;
    Tensors bytes = {bytes_of(x)};
    return follow_message(operation, group_->send(bytes, to, 0));
  }

  Landing recv(OperationPtr operation, at::Tensor x, int from) override {
    const QuietPipes quiet;
    Tensors bytes = {bytes_of(x)};
    return follow_message(operation, group_->recv(bytes, from, 0));
  }

  Landing barrier(OperationPtr operation, std::chrono::milliseconds timeout)
      override {
    c10d::BarrierOptions options;
    options.timeout = timeout;
    follow(operation, {group_->barrier(options)});
    return {};
  }

  /// Leaves the c10d object to the end of the process: its destructor joins
  /// threads that wait for the lost peer, and Gloo cannot be told to give up.
  void abandon() override { group_.release(); }

 private:
  Work exchange(
      at::Tensor output,
      at::Tensor input,
      Counts output_counts,
      Counts input_counts) {
    const auto width = static_cast<std::int64_t>(input.element_size());
    for (std::int64_t& count : output_counts) {
      count *= width;
    }
    for (std::int64_t& count : input_counts) {
      count *= width;
    }
    at::Tensor to = bytes_of(output);
    at::Tensor from = bytes_of(input);
    return group_->alltoall_base(to, from, output_counts, input_counts);
  }

  static void follow(
      const OperationPtr& operation,
      const std::vector<Work>& works) {
    operation->expect(static_cast<int>(works.size()));
    for (const Work& work : works) {
      work->getFuture()->addCallback([operation](c10::ivalue::Future& future) {
        operation->part_ended(error_of(future));
      });
    }
  }

  /// Follows a gather of something that has a name, while the ranks compare the
  /// names: parts of one size from different things would be taken for one.
  void follow_named(const OperationPtr& operation, const Work& gather) {
    const CollectiveRecord& record = operation->record();
    const auto name = static_cast<std::int64_t>(
        stable_hash(fmt::format("{} {}", record.sequence, record.detail)));
    const at::Tensor names = at::empty({size_}, at::kLong);
    at::Tensor to = bytes_of(names);
    at::Tensor from = bytes_of(at::full({1}, name, at::kLong));
    const Work comparison = group_->_allgather_base(to, from);
    operation->expect(2);
    gather->getFuture()->addCallback([operation](c10::ivalue::Future& future) {
      operation->part_ended(error_of(future));
    });
    comparison->getFuture()->addCallback(
        [operation, names, name](c10::ivalue::Future& future) {
          std::string error = error_of(future);
          const std::span<const std::int64_t> all(
              names.const_data_ptr<std::int64_t>(),
              static_cast<std::size_t>(names.numel()));
          if (error.empty() &&
              std::ranges::any_of(all, [&](auto n) { return n != name; })) {
            error = "the ranks gather different things";
          }
          operation->part_ended(error);
        });
  }

  static std::string error_of(c10::ivalue::Future& future) {
    return future.hasError() ? first_line(future.tryRetrieveErrorMessage())
                             : "";
  }

  /// Waits for a message in a thread of its own. Messages have no callback:
  /// c10d learns of their end only in wait(). Short timed waits are no way out,
  /// since a timeout closes Gloo's connections.
  static Landing follow_message(const OperationPtr& operation, Work work) {
    operation->on_abort([work] { work->abort(); });
    auto waiting = std::make_shared<std::jthread>([operation, work] {
      std::string error;
      try {
        if (!work->wait()) {
          error = "given up";
        }
      } catch (const std::exception& thrown) {
        error = library_text(thrown);
      }
      operation->part_ended(error);
    });
    return {[waiting] {}};
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  const int size_;
};

class GlooFactory final : public BackendFactory {
 public:
  explicit GlooFactory(const FactoryOptions& options) : options_(options) {
    // GLOO_SOCKET_IFNAME is the variable that c10d's own users know.
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    if (interface && *interface) {
      device_ =
          c10d::ProcessGroupGloo::createDeviceForInterface(interface, false);
    } else if (options.one_machine) {
      device_ =
          c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1", false);
    } else {
      device_ = c10d::ProcessGroupGloo::createDefaultDevice(false);
    }
  }

  std::unique_ptr<GroupBackend> make(const GroupPlace& place) override {
    auto options = c10d::ProcessGroupGloo::Options::create(options_.timeout);
    options->devices = {device_};
    options->group_name = place.name;
    for (const int rank : place.global_ranks) {
      options->global_ranks_in_group.push_back(
          static_cast<std::uint64_t>(rank));
    }
    const auto& store = dynamic_cast<C10dStore&>(place.store).raw();
    auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo/" + place.name, store),
        place.rank,
        place.size,
        options);
    return std::make_unique<GlooGroup>(std::move(group), place.size);
  }

 private:
  FactoryOptions options_;
  std::shared_ptr<gloo::transport::Device> device_;
};

} // namespace

std::unique_ptr<BackendFactory> gloo_factory(const FactoryOptions& options) {
  try {
    return std::make_unique<GlooFactory>(options);
  } catch (const std::exception& error) {
    throw CommError(
        {.what = "Gloo found no network interface to use",
         .values = library_text(error),
         .remedy = "name one in GLOO_SOCKET_IFNAME"});
  }
}

} // namespace cairn::distributed
