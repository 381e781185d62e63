#pragma once

#include <cairn/nn/layer.h>

#include <cstdint>

namespace cairn::nn {

/// The rows of an embedding or columns of logits that a rank has, the last of
/// which may be padding.
struct VocabularyPart {
  std::int64_t begin = 0;
  std::int64_t rows = 0; ///< with padding
  std::int64_t used = 0; ///< without

  static VocabularyPart of(const SlicedShape& shape);
};

struct VocabularyOptions {
  std::int64_t size = 0;
  std::int64_t padded = 0; ///< at least; rounded up to divide by the ranks

  /// How a parameter with one row (of `columns`, or one value) for each word is
  /// shared.
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
  /// [batch, sequence] to [batch, sequence, hidden], or a part of the tokens
  /// where the sequence is split.
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
