#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/layer.h>

#include <cstdint>

// The first and the last layer of a language model, whose vocabulary is divided
// over the ranks of a group.

namespace cairn::nn {

/// The rows of an embedding, or columns of logits, that a rank has. The last
/// ones may be padding.
struct VocabularyPart {
  std::int64_t begin = 0;
  std::int64_t rows = 0; ///< padding included
  std::int64_t used = 0; ///< without padding

  static VocabularyPart of(const SlicedShape& shape);
};

struct VocabularyOptions {
  std::int64_t size = 0;
  std::int64_t padded = 0; ///< least size; rounded up to divide by the ranks

  /// The shape of a parameter with one row for each word, divided over the
  /// ranks. A row has `columns` values, or one without it.
  SlicedShape shape(
      const distributed::ProcessGroup& group,
      std::optional<std::int64_t> columns) const;
};

/// Word embedding: each rank has a part of the vocabulary.
class VocabularyEmbedding : public Layer {
 public:
  VocabularyEmbedding(
      const LayerContext& context,
      const VocabularyOptions& vocabulary,
      std::int64_t hidden);
  /// Maps [batch, sequence] to [batch, sequence, hidden], or to this rank's
  /// part of the tokens where the sequence is split.
  at::Tensor forward(const at::Tensor& tokens) const;

  const at::Tensor& weight() const { return weight_; }
  const VocabularyPart& part() const { return part_; }

 private:
  distributed::ProcessGroup group_;
  bool split_tokens_;
  VocabularyPart part_;
  at::Tensor weight_;
};

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

/// The word with the highest score for each token, [batch, sequence]; of equal
/// ones the first.
at::Tensor likeliest_words(
    const at::Tensor& hidden,
    const VocabularyHead& head);

/// Logits [batch, sequence, vocabulary], whole on every rank and without
/// padding.
at::Tensor logits(const at::Tensor& hidden, const VocabularyHead& head);

} // namespace cairn::nn
