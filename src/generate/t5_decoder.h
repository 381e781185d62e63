#pragma once

#include "generate/decoder.h"
#include "generate/decoder_weights.h"
#include "generate/kept_texts.h"
#include "generate/mlp_rows.h"
#include "generate/relative_table.h"
#include "generate/row_operations.h"

#include <cairn/model/description.h>

#include <cstdint>
#include <vector>

namespace cairn::generate {

/// Computes the texts that a T5 writes, on the CPU. The encoder reads a text's
/// source once; its keys and values for every layer of the decoder are kept
/// beside those of the text's own tokens.
class T5Decoder : public Decoder {
 public:
  /// `cache`: what is kept of the texts, and as much again for their sources.
  T5Decoder(
      const model::ModelDescription& model,
      T5Weights weights,
      const CacheShape& cache,
      std::int64_t most_texts);

  std::int64_t longest() const override { return texts_.longest(); }
  bool reserve(std::size_t place, std::int64_t tokens) override {
    return texts_.reserve(place, tokens);
  }
  std::int64_t longest_source() const override { return sources_.longest(); }
  bool reserve_source(std::size_t place, std::int64_t tokens) override {
    return sources_.reserve(place, tokens);
  }
  void release(std::size_t place) override;
  bool copy(std::size_t from, std::size_t to, std::int64_t tokens) override;
  std::span<const float> compute(std::span<const Piece> pieces) override;

 private:
  /// The rows of a stack, as they go through its layers.
  struct Rows {
    std::vector<RowPlace> places;
    std::vector<RowPlace> sources; ///< decoder: what they see of the source
    std::vector<std::int64_t> tokens;
    std::vector<std::int64_t> all; ///< 0, 1, …
    std::vector<float> hidden;     ///< [rows, hidden], the residual stream
    std::vector<float> normal;     ///< [rows, hidden]
    std::vector<float> projected;  ///< [rows, queries, keys and values]
    std::vector<float> attended;   ///< [rows, heads * head_size]

    std::int64_t count() const { return std::ssize(places); }
    void clear();
  };

  void prepare(Rows& rows) const;
  /// Reads a source, for which there is room, and keeps its keys and values for
  /// the decoder.
  void read_source(std::size_t place, std::span<const std::int64_t> source);
  void attend_to_own_stack(
      const BlockWeights& block,
      const CacheLayer& cache,
      const RelativeTable& relative,
      Rows& rows) const;
  void attend_to_source(
      const CrossWeights& cross,
      std::int64_t layer,
      Rows& rows) const;
  void add_mlp(const BlockWeights& block, const NormWeights& norm, Rows& rows);
  void normalize(const NormWeights& norm, Rows& rows) const;
  RowHeads heads() const {
    return {
        model_.key_value_heads,
        model_.heads / model_.key_value_heads,
        model_.head_size};
  }

  model::ModelDescription model_;
  T5Weights weights_;
  RowOperations operations_;
  MlpRows mlps_{operations_};
  KeptTexts texts_;
  KeptTexts sources_; ///< of each text, for the decoder's layers
  KeptTexts encoded_; ///< of the source that is read, for one layer
  RelativeTable back_;
  RelativeTable around_;
  std::vector<std::int64_t> source_lengths_; ///< 0: not read yet
  Rows encoder_;
  Rows decoder_;
  std::vector<float> scores_; ///< [scored rows, vocabulary]
};

} // namespace cairn::generate
