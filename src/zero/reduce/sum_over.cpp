#include "zero/internal/sum_over.h"

namespace cairn::zero {

at::Tensor sum_over(
    const distributed::ProcessGroup& group,
    const at::Tensor& numbers,
    distributed::ReduceOp op) {
  if (group.size() == 1) {
    return numbers;
  }
  const bool on_gpu = group.backend() == "nccl";
  return group.all_reduce(on_gpu ? numbers.cuda() : numbers.cpu(), op)
      .wait()
      .to(numbers.device());
}

} // namespace cairn::zero
