#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <vector>

namespace cairn::nn {

/// A tensor on its way to the next rank, and the one that comes from the rank
/// before. What is sent must not be changed before wait().
class RingPass {
 public:
  RingPass(at::Tensor sent, const distributed::ProcessGroup& group);
  /// What has come.
  at::Tensor wait();

 private:
  at::Tensor received_;
  std::vector<distributed::Pending> pending_;
};

} // namespace cairn::nn
