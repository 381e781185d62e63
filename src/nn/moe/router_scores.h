#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// The router's scores of tokens, [tokens, hidden] x weight transposed, in fp32
/// whatever the model computes in, with autograd. `weight` is [experts,
/// hidden].
at::Tensor router_scores(const at::Tensor& tokens, const at::Tensor& weight);

} // namespace cairn::nn
