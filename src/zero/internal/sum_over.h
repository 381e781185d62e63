#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

namespace cairn::zero {

/// Sums (or reduces by `op`) a few numbers on the host over the group, through
/// the GPU where the group talks only there.
at::Tensor sum_over(
    const distributed::ProcessGroup& group,
    const at::Tensor& host,
    distributed::ReduceOp op = distributed::ReduceOp::sum);

} // namespace cairn::zero
