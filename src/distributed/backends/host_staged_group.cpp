#include "distributed/backends/group_backend.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

namespace cairn::distributed {
namespace {

/// A copy in host memory of a tensor on a GPU; a host tensor itself.
at::Tensor on_host(const at::Tensor& x) {
  return x.cpu();
}

/// Host memory for a result; its values do not matter.
at::Tensor room_for(const at::Tensor& x) {
  return x.is_cpu() ? x : at::empty(x.sizes(), x.options().device(at::kCPU));
}

std::vector<at::Tensor> each(
    const std::vector<at::Tensor>& xs,
    at::Tensor (*staged)(const at::Tensor&)) {
  std::vector<at::Tensor> result(xs.size());
  std::ranges::transform(xs, result.begin(), staged);
  return result;
}

Landing then_back(
    Landing landing,
    std::vector<at::Tensor> to,
    std::vector<at::Tensor> from) {
  landing.finish = [finish = std::move(landing.finish),
                    to = std::move(to),
                    from = std::move(from)] {
    if (finish) {
      finish();
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (!to[i].is_cpu()) {
        to[i].copy_(from[i]);
      }
    }
  };
  return landing;
}

/// Groups for GPU tensors over a library that only knows host memory.
class HostStagedGroup final : public GroupBackend {
 public:
  explicit HostStagedGroup(std::unique_ptr<GroupBackend> host)
      : host_(std::move(host)) {}

  std::string_view name() const override { return "gloo on gpu"; }
  std::optional<c10::DeviceType> device() const override {
    return std::nullopt;
  }

  Landing all_reduce(OperationPtr operation, Tensors xs, ReduceOp op) override {
    const Tensors staged = each(xs, on_host);
    return then_back(
        host_->all_reduce(std::move(operation), staged, op),
        std::move(xs),
        staged);
  }

  Landing broadcast(OperationPtr operation, Tensors xs, int root) override {
    const Tensors staged = each(xs, on_host);
    return then_back(
        host_->broadcast(std::move(operation), staged, root),
        std::move(xs),
        staged);
  }

  Landing all_gather(OperationPtr operation, Tensors outputs, Tensors inputs)
      override {
    const Tensors staged = each(outputs, room_for);
    return then_back(
        host_->all_gather(std::move(operation), staged, each(inputs, on_host)),
        std::move(outputs),
        staged);
  }

  Landing reduce_scatter(
      OperationPtr operation,
      Tensors outputs,
      Tensors inputs,
      ReduceOp op) override {
    const Tensors staged = each(outputs, room_for);
    return then_back(
        host_->reduce_scatter(
            std::move(operation),
            staged,
            each(inputs, on_host),
            op),
        std::move(outputs),
        staged);
  }

  Landing all_gather_uneven(
      OperationPtr operation,
      at::Tensor output,
      at::Tensor input,
      const Counts& counts) override {
    const at::Tensor staged = room_for(output);
    return then_back(
        host_->all_gather_uneven(
            std::move(operation),
            staged,
            on_host(input),
            counts),
        {output},
        {staged});
  }

  Landing reduce_scatter_uneven(
      OperationPtr operation,
      at::Tensor output,
      at::Tensor input,
      const Counts& counts,
      ReduceOp op) override {
    const at::Tensor staged = room_for(output);
    return then_back(
        host_->reduce_scatter_uneven(
            std::move(operation),
            staged,
            on_host(input),
            counts,
            op),
        {output},
        {staged});
  }

  Landing all_to_all(
      OperationPtr operation,
      at::Tensor output,
      at::Tensor input,
      const Counts& output_counts,
      const Counts& input_counts) override {
    const at::Tensor staged = room_for(output);
    return then_back(
        host_->all_to_all(
            std::move(operation),
            staged,
            on_host(input),
            output_counts,
            input_counts),
        {output},
        {staged});
  }

  Landing send(OperationPtr operation, at::Tensor x, int to) override {
    return host_->send(std::move(operation), on_host(x), to);
  }

  Landing recv(OperationPtr operation, at::Tensor x, int from) override {
    const at::Tensor staged = room_for(x);
    return then_back(
        host_->recv(std::move(operation), staged, from),
        {x},
        {staged});
  }

  Landing barrier(OperationPtr operation, std::chrono::milliseconds timeout)
      override {
    return host_->barrier(std::move(operation), timeout);
  }

  void abandon() override { host_->abandon(); }

 private:
  const std::unique_ptr<GroupBackend> host_;
};

class HostStagedFactory final : public BackendFactory {
 public:
  explicit HostStagedFactory(std::unique_ptr<BackendFactory> host)
      : host_(std::move(host)) {}

  std::unique_ptr<GroupBackend> make(const GroupPlace& place) override {
    return std::make_unique<HostStagedGroup>(host_->make(place));
  }

 private:
  std::unique_ptr<BackendFactory> host_;
};

} // namespace

std::unique_ptr<BackendFactory> host_staged_factory(
    std::unique_ptr<BackendFactory> host) {
  return std::make_unique<HostStagedFactory>(std::move(host));
}

} // namespace cairn::distributed
