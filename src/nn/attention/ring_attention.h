#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

namespace cairn::nn {

/// Causal attention of this rank's two pieces of a sequence to all of it; every
/// rank holds two pieces (sequence_halves.h). Keys and values go round the
/// ranks, and move on while they are used. Shapes are those of attend_partly().
at::Tensor ring_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    double scale,
    const distributed::ProcessGroup& group);

} // namespace cairn::nn
