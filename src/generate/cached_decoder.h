#pragma once

#include "generate/decoder.h"
#include "generate/decoder_weights.h"
#include "generate/internal/model_part.h"
#include "generate/kept_texts.h"
#include "generate/mlp_rows.h"
#include "generate/rank_links.h"
#include "generate/rotary_table.h"
#include "generate/row_operations.h"
#include "generate/token_row.h"

#include <cairn/model/description.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace cairn::generate {

/// Computes new tokens only, on the CPU, and keeps the keys and values of all
/// others. A token is a row of every product; what a row holds does not depend
/// on the rows beside it.
///
/// A decoder may have a part of a model. The ranks with the other parts then
/// compute the same tokens at the same time.
class CachedDecoder : public Decoder {
 public:
  /// Several decoders may have the same weights.
  CachedDecoder(
      const models::ModelDescription& model,
      const ModelPart& part,
      std::shared_ptr<const DecoderWeights> weights,
      const CacheShape& cache,
      std::int64_t most_texts,
      RankLinks links = {});

  std::int64_t longest() const override { return texts_.longest(); }
  bool reserve(std::size_t place, std::int64_t tokens) override {
    return texts_.reserve(place, tokens);
  }
  void release(std::size_t place) override { texts_.release(place); }
  bool copy(std::size_t from, std::size_t to, std::int64_t tokens) override {
    return texts_.copy(from, to, tokens);
  }
  std::span<const float> compute(std::span<const Piece> pieces) override {
    return compute(rows_of(pieces));
  }
  /// Computes the tokens. Returns their scores on the first rank of the first
  /// stage.
  std::span<const float> compute(std::span<const TokenRow> tokens);

 private:
  void list_rows(std::span<const TokenRow> tokens);
  void embed();
  void compute_block(std::int64_t layer, const BlockWeights& block);
  /// Adds to the residual stream what `write(y, adds)` writes to y, or adds to
  /// it.
  template <class Write>
  void add_to_stream(const Write& write);
  std::span<const float> scores();
  std::span<const float> joined_scores(std::int64_t rows);
  /// The residual stream of all rows.
  std::span<float> stream();
  RowHeads heads() const {
    return {
        part_.groups.count,
        part_.queries.count / part_.groups.count,
        model_.head_size};
  }

  model::ModelDescription model_;
  ModelPart part_;
  std::shared_ptr<const DecoderWeights> weights_;
  RankLinks links_;
  KeptTexts texts_;
  RotaryTable rotary_;
  RowOperations operations_;
  MlpRows mlps_{operations_};

  // Of the step that is computed.
  std::vector<RowPlace> rows_;
  std::vector<std::int64_t> tokens_;
  std::vector<std::int64_t> all_rows_;
  std::vector<std::int64_t> scored_rows_;
  std::vector<float> hidden_;    ///< [rows, hidden], the residual stream
  std::vector<float> normal_;    ///< [rows, hidden]
  std::vector<float> projected_; ///< [rows, queries, keys and values]
  std::vector<float> attended_;  ///< [rows, heads * head_size]
  std::vector<float> partial_;   ///< [rows, hidden], a rank's part of a sum
  std::vector<float> scores_;    ///< [scored rows, words of the part]
  std::vector<float> gathered_;  ///< [ranks, scored rows, words of a part]
  std::vector<float> joined_;    ///< [scored rows, vocabulary]
};

} // namespace cairn::generate
