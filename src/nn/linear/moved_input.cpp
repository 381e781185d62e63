#include "nn/linear/moved_input.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include "nn/recompute/activation_buffer.h"

#include <algorithm>

namespace cairn::nn {
namespace {

int parts_of(const CheckpointOptions& options) {
  return options.partition_over ? options.partition_over->size() : 1;
}

// The elements in memory order, without a copy where they lie densely.
at::Tensor flat(const at::Tensor& dense) {
  return dense.as_strided({dense.numel()}, {1});
}

} // namespace

bool MovedInput::suits(
    const at::Tensor& input,
    const CheckpointOptions& options) {
  const int parts = parts_of(options);
  const bool asked = parts > 1 || (options.on_cpu && !input.is_cpu());
  return asked && input.is_floating_point() && input.layout() == at::kStrided &&
      input.numel() >= parts && !(input.is_leaf() && input.requires_grad());
}

MovedInput::MovedInput(
    const at::Tensor& input,
    const CheckpointOptions& options,
    std::size_t position)
    : device_(input.device()), sizes_(input.sizes()), numel_(input.numel()) {
  const at::Tensor dense = input.is_non_overlapping_and_dense()
      ? input.detach()
      : input.detach().contiguous();
  strides_ = dense.strides();

  const int parts = parts_of(options);
  std::int64_t part_size = numel_;
  at::Tensor part = flat(dense);
  if (parts > 1) {
    group_ = options.partition_over;
    // All parts have one size, for a plain gather; the last may be padded.
    part_size = (numel_ + parts - 1) / parts;
    const std::int64_t begin = std::min(numel_, group_->rank() * part_size);
    part = part.slice(0, begin, std::min(numel_, begin + part_size));
  }
  const bool to_cpu = options.on_cpu && !input.is_cpu();
  const auto where = at::TensorOptions()
                         .dtype(input.dtype())
                         .device(options.on_cpu ? at::kCPU : device_)
                         .pinned_memory(to_cpu);
  rest_ = options.buffer ? options.buffer->take(position, part_size, where)
                         : at::empty({part_size}, where);
  if (to_cpu) {
    copy(part);
  } else {
    rest_.slice(0, 0, part.numel()).copy_(part);
  }
}

void MovedInput::copy(const at::Tensor& part) {
  const c10::impl::VirtualGuardImpl gpu(device_.type());
  const c10::Stream computing = gpu.getStream(device_);
  const c10::Stream copying = gpu.getStreamFromGlobalPool(device_);
  c10::Event ready(device_.type());
  ready.record(computing);
  ready.block(copying);
  const c10::StreamGuard guard(copying);
  rest_.slice(0, 0, part.numel()).copy_(part, /*non_blocking=*/true);
  part.record_stream(copying);
  copied_.emplace(device_.type());
  copied_->record(copying);
}

at::Tensor MovedInput::restore() const {
  if (copied_) {
    copied_->block(
        c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  const auto move = [](const at::Tensor& x, c10::Device device) {
    return x.to(device, /*non_blocking=*/x.is_cpu());
  };
  at::Tensor all;
  if (group_) {
    const bool by_gpu = group_->backend() == "nccl";
    const at::Tensor part =
        by_gpu ? move(rest_, device_) : move(rest_, at::kCPU);
    all = move(group_->all_gather(part).wait(), device_);
  } else {
    all = move(rest_, device_);
  }
  return all.as_strided(sizes_, strides_);
}

} // namespace cairn::nn
