#pragma once

#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/model/presets.h>
#include <cairn/models/transformer.h>

#include <cstdint>
#include <functional>
#include <vector>

// Models of every kind, as small as can be, and batches for them.

namespace cairn::models::small {

constexpr model::ModelSizes tiny{
    .layers = 2,
    .hidden = 32,
    .heads = 4,
    .sequence = 16,
    .vocabulary = 61};

inline ModelDescription t5_with_relative_positions() {
  ModelDescription d = model::t5_description(tiny);
  d.position = model::PositionKind::relative;
  d.relative_buckets = 8;
  d.relative_distance = 20;
  return d;
}

inline std::vector<ModelDescription> all_kinds() {
  ModelDescription roberta = model::roberta_small_description();
  roberta.layers = 1;
  roberta.vocabulary = roberta.padded_vocabulary = 61;
  roberta.dropout = roberta.attention_dropout = 0;
  return {
      model::gpt_description(tiny),
      model::llama_description(tiny, 2, 48),
      model::bert_description(tiny),
      model::bert_description(tiny, model::BinaryHead::without),
      model::t5_description(tiny),
      t5_with_relative_positions(),
      roberta};
}

/// Tokens that are the same on every rank.
inline at::Tensor some_tokens(std::int64_t rows = 2, std::int64_t columns = 8) {
  return at::arange(rows * columns, at::kLong)
      .mul_(17)
      .remainder_(61)
      .view({rows, columns});
}

inline ModelInput some_input(const ModelDescription& d) {
  ModelInput input{.tokens = some_tokens()};
  input.labels = some_tokens().add(5).remainder_(61);
  if (d.family == model::ModelFamily::t5) {
    input.decoder_tokens = some_tokens().add(3).remainder_(61);
  }
  if (d.next_sentence_head) {
    input.next_sentence = at::arange(2, at::kLong);
  }
  return input;
}

inline void on_one_rank(const std::function<void()>& body) {
  testing::run_ranks(1, [&](const auto&) { body(); });
}

} // namespace cairn::models::small
