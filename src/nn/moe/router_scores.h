#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Tokens with their scores, [tokens, experts] in fp32.
struct ScoredTokens {
  at::Tensor scores;
  at::Tensor tokens;
};

/// The router's scores of tokens, [tokens, hidden] x weight transposed, in fp32
/// whatever the model computes in, with autograd. `weight` is [experts,
/// hidden]. Whoever else reads the tokens reads those of the result: on a GPU
/// both gradients are then added up within a product.
ScoredTokens router_scores(const at::Tensor& tokens, const at::Tensor& weight);

} // namespace cairn::nn
