#include "models/embedding.h"

#include "models/block_options.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <cairn/base/error.h>
#include <cairn/nn/tensor_parallel.h>
#include <fmt/format.h>

namespace cairn::models {

EmbeddingTable::EmbeddingTable(
    const nn::LayerContext& context,
    std::int64_t rows,
    std::int64_t hidden) {
  weight_ = add_parameter(
      context,
      "weight",
      nn::SlicedShape::all_of({rows, hidden}),
      model::InitialLaw::normal,
      nn::Gradient::of_own_tokens);
}

std::shared_ptr<nn::VocabularyEmbedding> make_word_embedding(
    const nn::LayerContext& context,
    const ModelDescription& d) {
  return std::make_shared<nn::VocabularyEmbedding>(
      context,
      vocabulary_of(d),
      d.hidden);
}

Embedding::Embedding(const nn::LayerContext& context, const ModelDescription& d)
    : group_(context.group),
      split_tokens_(context.splits_tokens()),
      sequence_ranks_(context.sequence.group.size()),
      dropout_(context, "dropout", d.dropout),
      position_offset_(d.position_offset) {
  const auto table = [&](const char* name, std::int64_t rows) {
    return register_module(
        name,
        std::make_shared<EmbeddingTable>(context.in(name), rows, d.hidden));
  };
  if (d.position == model::PositionKind::learned) {
    position_ = table("position", d.positions);
  }
  if (d.token_types > 0) {
    token_type_ = table("token_type", d.token_types);
  }
  if (d.norm_place == model::NormPlace::after) {
    norm_ = register_module(
        "norm",
        std::make_shared<nn::Norm>(
            context.in("norm"),
            d.hidden,
            norm_options(d)));
  }
}

at::Tensor Embedding::forward(at::Tensor x, const Ids& ids) const {
  if (position_) {
    x = with_positions(x, ids.positions);
  }
  if (token_type_) {
    x = with_token_types(x, ids.token_types);
  }
  if (norm_) {
    x = norm_->forward(x);
  }
  return is_training() ? dropout_.forward(x, ids.samples, ids.text) : x;
}

at::Tensor Embedding::with_positions(const at::Tensor& x, const at::Tensor& ids)
    const {
  const at::Tensor& weight = position_->weight();
  const std::int64_t sequence = x.size(1) * (split_tokens_ ? group_.size() : 1);
  const std::int64_t whole = sequence * sequence_ranks_;
  if (whole + position_offset_ > weight.size(0)) {
    throw ConfigError(
        {.what = "a text longer than the model has positions",
         .values = fmt::format(
             "{} tokens, {} positions",
             whole,
             weight.size(0) - position_offset_),
         .remedy = "shorten it, or train with more --max-position-embeddings"});
  }
  if (!ids.defined() && sequence_ranks_ > 1) {
    throw DataError(
        {.what = "a part of a sequence comes with its positions",
         .remedy = "cut the whole batch with own_sequence()"});
  }
  if (!ids.defined() && !split_tokens_) {
    return x + weight.narrow(0, position_offset_, sequence);
  }
  at::Tensor rows = ids.defined()
      ? ids
      : at::arange(sequence, x.options().dtype(at::kLong))
            .expand({x.size(0), sequence});
  if (split_tokens_) {
    rows = nn::own_tokens(rows, group_);
  }
  return x +
      at::embedding(
             weight,
             position_offset_ == 0 ? rows : rows + position_offset_);
}

at::Tensor Embedding::with_token_types(
    const at::Tensor& x,
    const at::Tensor& ids) const {
  const at::Tensor& weight = token_type_->weight();
  if (!ids.defined()) {
    return x + weight.select(0, 0);
  }
  return x +
      at::embedding(weight, split_tokens_ ? nn::own_tokens(ids, group_) : ids);
}

} // namespace cairn::models
