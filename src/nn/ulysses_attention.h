#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

namespace cairn::nn {

/// Causal attention of this rank's tokens, which lie in a row, to the whole
/// sequence: by all_to_all each rank gets all tokens of some heads, and gives
/// the results back. Shapes as for attend(), heads that the ranks divide.
at::Tensor ulysses_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    double scale,
    double dropout,
    const distributed::ProcessGroup& group);

} // namespace cairn::nn
