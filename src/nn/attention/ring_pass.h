#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

namespace cairn::nn {

/// Sends a tensor to the next rank and receives one from the rank before. Both
/// are one call, so that on no backend one of them waits for the other, and
/// both go on while the caller computes. The sent tensor must not be changed
/// before wait().
class RingPass {
 public:
  RingPass(const at::Tensor& sent, const distributed::ProcessGroup& group);
  /// The tensor that was received.
  at::Tensor wait() { return pending_.wait(); }
  /// True when wait() would return at once.
  bool done() const { return pending_.done(); }

 private:
  distributed::Pending pending_;
};

} // namespace cairn::nn
