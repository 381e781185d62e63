#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <memory>
#include <optional>
#include <utility>

namespace cairn::zero {

/// When a copy is there. A default one is there already.
class CopyMark {
 public:
  CopyMark() = default;
  explicit CopyMark(std::shared_ptr<c10::Event> event)
      : event_(std::move(event)) {}

  /// Blocks until then.
  void wait_on_host() const;
  /// What is asked of the device from now on comes after it.
  void wait_on_device() const;

 private:
  std::shared_ptr<c10::Event> event_;
};

/// Copies between a device and the host that run beside the device's other
/// work: on a stream of their own. On a CPU they are plain copies.
class SideCopies {
 public:
  explicit SideCopies(at::Device device);

  /// Copies after all that the device has been asked to do so far. The host
  /// side must be page-locked to run beside anything, and stay until then.
  CopyMark copy(const at::Tensor& to, const at::Tensor& from) const;

  /// Asks the device for work that comes after the copies, beside the rest.
  template <typename Work>
  void beside(Work work) const {
    const c10::OptionalStreamGuard guard(stream_);
    work();
  }

 private:
  std::optional<c10::Stream> stream_;
};

} // namespace cairn::zero
