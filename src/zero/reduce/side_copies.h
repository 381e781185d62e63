#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <memory>
#include <optional>
#include <utility>

namespace cairn::zero {

/// The end of a copy. A default mark is a copy that has ended.
class CopyMark {
 public:
  CopyMark() = default;
  explicit CopyMark(std::shared_ptr<c10::Event> event)
      : event_(std::move(event)) {}

  /// Blocks until the copy has ended.
  void wait_on_host() const;
  /// Makes work that is asked of the device from now on wait for the copy.
  void wait_on_device() const;

 private:
  std::shared_ptr<c10::Event> event_;
};

/// Copies between a device and the host that run beside the device's other
/// work, on a stream of their own. On a CPU they are plain copies.
class SideCopies {
 public:
  explicit SideCopies(at::Device device);

  /// Copies after all that the device has been asked to do so far. The host
  /// memory must be page-locked for the copy to run beside anything, and must
  /// stay until the copy has ended.
  CopyMark copy(const at::Tensor& to, const at::Tensor& from) const;

  /// Makes work beside come after all that the device has been asked so far.
  void follow() const;
  /// The end of all work that was asked beside.
  CopyMark end_so_far() const;
  /// Keeps a tensor's memory until the work beside is over.
  void keep(const at::Tensor& tensor) const;

  /// Asks the device for work that comes after the copies, beside the rest of
  /// its work.
  template <typename Work>
  void beside(Work work) const {
    const c10::OptionalStreamGuard guard(stream_);
    work();
  }

 private:
  std::optional<c10::Stream> stream_;
};

} // namespace cairn::zero
