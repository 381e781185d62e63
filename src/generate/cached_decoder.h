#pragma once

#include "generate/decoder.h"
#include "generate/decoder_weights.h"
#include "generate/kept_texts.h"
#include "generate/rotary_table.h"
#include "kernels/internal/cpu/decoder_rows.h"

#include <cairn/model/description.h>

#include <cstdint>
#include <vector>

namespace cairn::generate {

/// Computes new tokens only, on the CPU, and keeps the keys and values of all
/// others. A token is a row of every product; what a row holds does not depend
/// on the rows beside it.
class CachedDecoder : public Decoder {
 public:
  CachedDecoder(
      const models::Transformer& model,
      std::optional<WeightType> numbers,
      const CacheShape& cache,
      std::int64_t most_texts);

  std::int64_t longest() const override { return texts_.longest(); }
  bool reserve(std::size_t place, std::int64_t tokens) override {
    return texts_.reserve(place, tokens);
  }
  void release(std::size_t place) override { texts_.release(place); }
  bool copy(std::size_t from, std::size_t to, std::int64_t tokens) override {
    return texts_.copy(from, to, tokens);
  }
  std::span<const float> compute(std::span<const Piece> pieces) override;

  const DecoderWeights& weights() const { return weights_; }

 private:
  /// A token that is computed.
  struct Row {
    std::int64_t token;
    std::int64_t position;
    std::span<float* const> pages;
  };

  void list_rows(std::span<const Piece> pieces);
  void embed();
  void compute_block(std::int64_t layer, const BlockWeights& block);
  void normalize(const NormWeights& norm, std::span<const std::int64_t> rows);
  void multiply(
      const LinearWeights& linear,
      const float* x,
      std::int64_t rows,
      float* y,
      bool adds);
  void keep_keys_and_values(std::int64_t layer);
  void keep_row(std::int64_t layer, std::size_t row);
  void attend(std::int64_t layer);
  void activate_mlp(const BlockWeights& block);

  model::ModelDescription model_;
  DecoderWeights weights_;
  KeptTexts texts_;
  RotaryTable rotary_;
  const kernels::cpu::DecoderTable& kernels_;

  // Of the step that is computed.
  std::vector<Row> rows_;
  std::vector<std::int64_t> all_rows_;
  std::vector<std::int64_t> scored_rows_;
  std::vector<float> hidden_;    ///< [rows, hidden], the residual stream
  std::vector<float> normal_;    ///< [rows, hidden]
  std::vector<float> projected_; ///< [rows, queries, keys and values]
  std::vector<float> attended_;  ///< [rows, heads * head_size]
  std::vector<float> gate_;      ///< [rows, ffn]
  std::vector<float> up_;        ///< [rows, ffn]
  std::vector<float> scores_;    ///< [scored rows, vocabulary]
};

} // namespace cairn::generate
