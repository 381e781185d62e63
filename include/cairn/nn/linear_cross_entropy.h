#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/vocabulary.h>

namespace cairn::nn {

/// The last layer of a language model: from hidden states to scores over a
/// vocabulary whose parts are on the ranks of the group.
struct VocabularyHead {
  at::Tensor weight; ///< [rows, hidden]
  at::Tensor bias{}; ///< [rows], or undefined
  VocabularyPart part{};
  std::int64_t vocabulary = 0;
  distributed::ProcessGroup group{};
  bool split_tokens = false; ///< true when each rank has its own tokens
};

/// The sum over all tokens of weight times cross entropy, as a float. Labels
/// below 0 (-100, -1) are ignored. `weights`, one for each label, may be
/// undefined.
///
/// Logits exist for a chunk of tokens at a time, and gradients are computed
/// while the logits are there: a step never has all logits, nor a second copy
/// of any. Padding takes no part in the softmax.
at::Tensor linear_cross_entropy(
    const at::Tensor& hidden,
    const VocabularyHead& head,
    const at::Tensor& labels,
    const at::Tensor& weights = {});

/// Cross entropy of each token, in the shape of `labels`; 0 where ignored.
/// Without gradients.
at::Tensor token_cross_entropy(
    const at::Tensor& hidden,
    const VocabularyHead& head,
    const at::Tensor& labels);

/// Logits [batch, sequence, vocabulary], whole on every rank and without
/// padding.
at::Tensor logits(const at::Tensor& hidden, const VocabularyHead& head);

} // namespace cairn::nn
