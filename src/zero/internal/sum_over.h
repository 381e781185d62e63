#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

namespace cairn::zero {

/// Sums (or reduces by `op`) a few numbers over the group, through the device
/// where the group talks. The result is where the numbers are.
at::Tensor sum_over(
    const distributed::ProcessGroup& group,
    const at::Tensor& numbers,
    distributed::ReduceOp op = distributed::ReduceOp::sum);

} // namespace cairn::zero
