#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <vector>

namespace cairn::nn {

/// Sends a tensor to the next rank and receives one from the rank before. The
/// sent tensor must not be changed before wait().
class RingPass {
 public:
  RingPass(at::Tensor sent, const distributed::ProcessGroup& group);
  /// The tensor that was received.
  at::Tensor wait();

 private:
  at::Tensor received_;
  std::vector<distributed::Pending> pending_;
};

} // namespace cairn::nn
