#include "zero/reduce/side_copies.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace cairn::zero {

namespace {

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

} // namespace

void CopyMark::wait_on_host() const {
  if (event_) {
    event_->synchronize();
  }
}

void CopyMark::wait_on_device() const {
  if (event_) {
    event_->block(
        current_stream({event_->device_type(), event_->device_index()}));
  }
}

SideCopies::SideCopies(at::Device device) {
  if (!device.is_cpu()) {
    const c10::impl::VirtualGuardImpl devices(device.type());
    stream_ = devices.getStreamFromGlobalPool(
        device.has_index() ? device : devices.getDevice());
  }
}

CopyMark SideCopies::copy(const at::Tensor& to, const at::Tensor& from) const {
  if (!stream_ || (to.is_cpu() && from.is_cpu())) {
    to.copy_(from);
    return {};
  }
  follow();
  {
    const c10::StreamGuard beside(*stream_);
    to.copy_(from, /*non_blocking=*/true);
  }
  // The allocator must not hand out the memory again before the copy is over.
  keep(to.is_cpu() ? from : to);
  return end_so_far();
}

void SideCopies::follow() const {
  if (stream_) {
    c10::Event asked_so_far(stream_->device_type());
    asked_so_far.record(current_stream(stream_->device()));
    asked_so_far.block(*stream_);
  }
}

CopyMark SideCopies::end_so_far() const {
  if (!stream_) {
    return {};
  }
  auto done = std::make_shared<c10::Event>(stream_->device_type());
  done->record(*stream_);
  return CopyMark(std::move(done));
}

void SideCopies::keep(const at::Tensor& tensor) const {
  if (stream_ && tensor.defined() && !tensor.is_cpu()) {
    tensor.record_stream(*stream_);
  }
}

} // namespace cairn::zero
