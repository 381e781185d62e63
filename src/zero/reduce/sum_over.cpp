#include "zero/internal/sum_over.h"

namespace cairn::zero {

at::Tensor sum_over(
    const distributed::ProcessGroup& group,
    const at::Tensor& host,
    distributed::ReduceOp op) {
  if (group.size() == 1) {
    return host;
  }
  const bool on_gpu = group.backend() == "nccl";
  return group.all_reduce(on_gpu ? host.cuda() : host, op).wait().cpu();
}

} // namespace cairn::zero
