#pragma once

#include <cairn/models/transformer.h>
#include <cairn/nn/dropout.h>
#include <cairn/nn/norm.h>
#include <cairn/nn/vocabulary.h>

#include <memory>

namespace cairn::models {

/// A row for each of a few ids, the same on every rank.
class EmbeddingTable : public nn::Layer {
 public:
  EmbeddingTable(
      const nn::LayerContext& context,
      std::int64_t rows,
      std::int64_t hidden);
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

std::shared_ptr<nn::VocabularyEmbedding> make_word_embedding(
    const nn::LayerContext& context,
    const ModelDescription& description);

/// The layer between the words' vectors and the first block: learned positions,
/// token types, BERT's norm, dropout.
class Embedding : public nn::Layer {
 public:
  Embedding(
      const nn::LayerContext& context,
      const ModelDescription& description);

  struct Ids {
    at::Tensor positions{};   ///< [batch, sequence]; default: 0, 1, …
    at::Tensor token_types{}; ///< [batch, sequence]; default: 0
    at::Tensor samples{};     ///< [batch], as BlockInput has them
    std::int64_t text = 0;    ///< T5: 1 for the decoder's text
  };
  /// Turns the words' vectors into the first block's input.
  at::Tensor forward(at::Tensor words, const Ids& ids) const;

 private:
  at::Tensor with_positions(const at::Tensor& x, const at::Tensor& ids) const;
  at::Tensor with_token_types(const at::Tensor& x, const at::Tensor& ids) const;

  distributed::ProcessGroup group_;
  bool split_tokens_;
  int sequence_ranks_; ///< ranks that share every sequence
  nn::Dropout dropout_;
  std::int64_t position_offset_;
  std::shared_ptr<EmbeddingTable> position_;
  std::shared_ptr<EmbeddingTable> token_type_;
  std::shared_ptr<nn::Norm> norm_;
};

} // namespace cairn::models
