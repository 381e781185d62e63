#include "distributed/backends/group_backend.h"

#include <cairn/base/error.h>

namespace cairn::distributed {
namespace {

/// The backend of one rank: every result is the input. Callers hand over the
/// very same tensor as input and output where they can, so that nothing is
/// copied.
class LocalGroup final : public GroupBackend {
 public:
  std::string_view name() const override { return "local"; }
  std::optional<c10::DeviceType> device() const override {
    return std::nullopt;
  }

  Landing all_reduce(OperationPtr, Tensors, ReduceOp) override { return {}; }
  Landing broadcast(OperationPtr, Tensors, int) override { return {}; }
  Landing all_gather(OperationPtr, Tensors outputs, Tensors inputs) override {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      copy(outputs[i], inputs[i]);
    }
    return {};
  }
  Landing reduce_scatter(
      OperationPtr,
      Tensors outputs,
      Tensors inputs,
      ReduceOp) override {
    return all_gather(nullptr, std::move(outputs), std::move(inputs));
  }
  Landing all_gather_uneven(
      OperationPtr,
      at::Tensor output,
      at::Tensor input,
      const Counts&) override {
    copy(output, input);
    return {};
  }
  Landing reduce_scatter_uneven(
      OperationPtr,
      at::Tensor output,
      at::Tensor input,
      const Counts&,
      ReduceOp) override {
    copy(output, input);
    return {};
  }
  Landing all_to_all(
      OperationPtr,
      at::Tensor output,
      at::Tensor input,
      const Counts&,
      const Counts&) override {
    copy(output, input);
    return {};
  }
  Landing send(OperationPtr, at::Tensor, int) override { refuse(); }
  Landing recv(OperationPtr, at::Tensor, int) override { refuse(); }
  Landing barrier(OperationPtr, std::chrono::milliseconds) override {
    return {};
  }
  void abandon() override {}

 private:
  static void copy(const at::Tensor& output, const at::Tensor& input) {
    if (output.data_ptr() != input.data_ptr()) {
      output.copy_(input);
    }
  }
  [[noreturn]] static void refuse() {
    throw InternalError({.what = "a group of one has nobody to send to"});
  }
};

} // namespace

std::unique_ptr<GroupBackend> make_local_group() {
  return std::make_unique<LocalGroup>();
}

} // namespace cairn::distributed
