#pragma once

#include "nn/moe/choices.h"

namespace cairn::nn {

/// True when a kernel of ours chooses by these scores.
bool has_choice_kernels(
    const at::Tensor& scores,
    const RoutingOptions& options);

/// Chooses the experts with the highest scores, [tokens, experts] on a GPU: two
/// kernels forward and one backward.
Picked pick_by_kernel(const at::Tensor& scores, std::int64_t picks);

} // namespace cairn::nn
