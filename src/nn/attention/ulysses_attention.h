#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/attention.h>

namespace cairn::nn {

/// Attention of this rank's tokens, which are contiguous, to the whole
/// sequence. By all_to_all each rank gets all tokens of some heads, and gives
/// the results back. Shapes are those of attend(); the number of ranks must
/// divide the heads, and divide those of keys and values or be a multiple of
/// them.
at::Tensor ulysses_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    AttendOptions options,
    const distributed::ProcessGroup& group);

} // namespace cairn::nn
