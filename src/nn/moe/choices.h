#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/nn/mixture.h>

namespace cairn::nn {

/// The experts that tokens choose, before any of them is full.
struct Choices {
  at::Tensor experts; ///< [top_k, tokens], the first choice of each token first
  at::Tensor gates;   ///< their part of the scores' softmax, [top_k, tokens]
  at::Tensor counts;  ///< number of choices of each expert, [experts]
  at::Tensor balance_loss; ///< see Routes
};

/// Choices with what their balance loss is made of. `experts` and `gates` are
/// those of Choices.
struct Picked {
  at::Tensor experts;
  at::Tensor gates;
  at::Tensor means;  ///< mean softmax of each expert, [experts]
  at::Tensor counts; ///< number of choices of each expert, [experts]
  at::Tensor firsts; ///< and of first ones
};

/// Chooses by scores, [tokens, experts] in fp32, as DeepSpeed's top1gating,
/// top2gating and, above 2, topkgating do. The host waits for nothing.
/// `sharers` have other tokens of the same sequences; the balance loss is that
/// of all.
Choices choose(
    const at::Tensor& scores,
    const RoutingOptions& options,
    const distributed::ProcessGroup& sharers);

/// Weight of each choice, [top_k, tokens]: its gate, and with more than one
/// expert its part of the gates of all choices that are `kept`. 0 for a choice
/// that is not; `kept`, [top_k, tokens], is undefined where all are.
at::Tensor weights_of(const Choices& choices, const at::Tensor& kept);

} // namespace cairn::nn
