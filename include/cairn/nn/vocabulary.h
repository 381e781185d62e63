#pragma once

#include <cairn/nn/layer.h>

#include <cstdint>

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

} // namespace cairn::nn
