#include "generate/t5_decoder.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace cairn::generate {
namespace {

/// The cache of the source that is read: one layer at a time, and as many pages
/// as it needs.
CacheShape of_one_layer(CacheShape shape) {
  shape.layers = 1;
  shape.most_pages = std::numeric_limits<std::int32_t>::max();
  return shape;
}

} // namespace

void T5Decoder::Rows::clear() {
  places.clear();
  sources.clear();
  tokens.clear();
}

T5Decoder::T5Decoder(
    const model::ModelDescription& model,
    T5Weights weights,
    const CacheShape& cache,
    std::int64_t most_texts)
    : model_(model),
      weights_(std::move(weights)),
      operations_(model_),
      texts_(cache, most_texts),
      sources_(cache, most_texts),
      encoded_(of_one_layer(cache), 1),
      back_(model_, weights_.decoder.relative, false),
      around_(model_, weights_.encoder.relative, true),
      source_lengths_(static_cast<std::size_t>(most_texts)) {}

void T5Decoder::release(std::size_t place) {
  texts_.release(place);
  sources_.release(place);
  source_lengths_[place] = 0;
}

bool T5Decoder::copy(std::size_t from, std::size_t to, std::int64_t tokens) {
  if (!texts_.copy(from, to, tokens)) {
    return false;
  }
  if (!sources_.copy(from, to, source_lengths_[from])) {
    texts_.release(to);
    return false;
  }
  source_lengths_[to] = source_lengths_[from];
  return true;
}

std::span<const float> T5Decoder::compute(std::span<const Piece> pieces) {
  decoder_.clear();
  std::vector<std::int64_t> scored;
  std::int64_t longest = 0;
  for (const Piece& piece : pieces) {
    if (source_lengths_[piece.place] == 0) {
      read_source(piece.place, piece.source);
    }
    const auto end = std::ssize(piece.text);
    longest = std::max(longest, end);
    for (std::int64_t i = piece.begin; i < end; ++i) {
      if (i >= end - piece.scored) {
        scored.push_back(decoder_.count());
      }
      decoder_.tokens.push_back(piece.text[static_cast<std::size_t>(i)]);
      decoder_.places.push_back({i, i + 1, texts_.pages(piece.place)});
      decoder_.sources.push_back(
          {i, source_lengths_[piece.place], sources_.pages(piece.place)});
    }
  }
  back_.grow(longest);
  prepare(decoder_);
  for (std::size_t i = 0; i < weights_.decoder.blocks.size(); ++i) {
    const BlockWeights& block = weights_.decoder.blocks[i];
    const CrossWeights& cross = weights_.decoder.crosses[i];
    const auto layer = static_cast<std::int64_t>(i);
    attend_to_own_stack(block, {texts_.shape(), layer}, back_, decoder_);
    normalize(block.post_attention_norm, decoder_);
    attend_to_source(cross, layer, decoder_);
    add_mlp(block, cross.norm, decoder_);
  }
  operations_.normalize(
      weights_.decoder.final_norm,
      decoder_.hidden.data(),
      scored,
      decoder_.normal.data());
  const auto rows = std::ssize(scored);
  if (model_.scaled_output) {
    const auto factor =
        static_cast<float>(1 / std::sqrt(static_cast<double>(model_.hidden)));
    for (std::int64_t i = 0; i < rows * model_.hidden; ++i) {
      decoder_.normal[static_cast<std::size_t>(i)] *= factor;
    }
  }
  make_rows(scores_, scored.size(), model_.vocabulary);
  operations_.multiply(
      weights_.head,
      decoder_.normal.data(),
      rows,
      scores_.data(),
      false);
  return std::span(scores_).first(
      scored.size() * static_cast<std::size_t>(model_.vocabulary));
}

/// Makes room for the rows, and embeds their tokens.
void T5Decoder::prepare(Rows& rows) const {
  const std::size_t count = rows.places.size();
  rows.all.resize(count);
  std::iota(rows.all.begin(), rows.all.end(), std::int64_t{0});
  make_rows(rows.hidden, count, model_.hidden);
  make_rows(rows.normal, count, model_.hidden);
  make_rows(rows.projected, count, heads().columns());
  make_rows(rows.attended, count, model_.heads * model_.head_size);
  embed_words(rows.tokens, weights_.words, 0, rows.hidden.data());
  if (weights_.positions.defined()) {
    for (std::size_t i = 0; i < count; ++i) {
      const float* position = weights_.positions.const_data_ptr<float>() +
          (rows.places[i].position + model_.position_offset) * model_.hidden;
      float* x =
          rows.hidden.data() + static_cast<std::int64_t>(i) * model_.hidden;
      std::transform(x, x + model_.hidden, position, x, std::plus<>());
    }
  }
}

void T5Decoder::read_source(
    std::size_t place,
    std::span<const std::int64_t> source) {
  const auto length = std::ssize(source);
  if (length == 0) {
    throw InternalError({.what = "a T5 writes from a source without a token"});
  }
  encoded_.reserve(0, length);
  encoder_.clear();
  encoder_.tokens.assign(source.begin(), source.end());
  for (std::int64_t i = 0; i < length; ++i) {
    encoder_.places.push_back({i, length, encoded_.pages(0)});
  }
  around_.grow(length);
  prepare(encoder_);
  for (const BlockWeights& block : weights_.encoder.blocks) {
    attend_to_own_stack(block, {encoded_.shape(), 0}, around_, encoder_);
    add_mlp(block, block.post_attention_norm, encoder_);
  }
  normalize(weights_.encoder.final_norm, encoder_);
  const RowHeads none{model_.key_value_heads, 0, model_.head_size};
  for (RowPlace& each : encoder_.places) {
    each.pages = sources_.pages(place);
  }
  for (std::size_t i = 0; i < weights_.decoder.crosses.size(); ++i) {
    operations_.multiply(
        weights_.decoder.crosses[i].key_value,
        encoder_.normal.data(),
        length,
        encoder_.projected.data(),
        false);
    operations_.keep(
        encoder_.places,
        none,
        encoder_.projected.data(),
        {sources_.shape(), static_cast<std::int64_t>(i)},
        {});
  }
  source_lengths_[place] = length;
}

void T5Decoder::attend_to_own_stack(
    const BlockWeights& block,
    const CacheLayer& cache,
    const RelativeTable& relative,
    Rows& rows) const {
  normalize(block.input_norm, rows);
  operations_.multiply(
      block.query_key_value,
      rows.normal.data(),
      rows.count(),
      rows.projected.data(),
      false);
  operations_.keep(rows.places, heads(), rows.projected.data(), cache, {});
  operations_.attend(
      {.rows = rows.places,
       .heads = heads(),
       .queries = rows.projected.data(),
       .row_step = heads().columns(),
       .group_step = heads().columns() / heads().groups,
       .cache = cache,
       .relative = &relative,
       .result = rows.attended.data()});
  operations_.multiply(
      block.dense,
      rows.attended.data(),
      rows.count(),
      rows.hidden.data(),
      true);
}

void T5Decoder::attend_to_source(
    const CrossWeights& cross,
    std::int64_t layer,
    Rows& rows) const {
  operations_.multiply(
      cross.query,
      rows.normal.data(),
      rows.count(),
      rows.projected.data(),
      false);
  operations_.attend(
      {.rows = rows.sources,
       .heads = heads(),
       .queries = rows.projected.data(),
       .row_step = model_.heads * model_.head_size,
       .group_step = heads().queries * model_.head_size,
       .cache = {sources_.shape(), layer},
       .result = rows.attended.data()});
  operations_.multiply(
      cross.dense,
      rows.attended.data(),
      rows.count(),
      rows.hidden.data(),
      true);
}

void T5Decoder::add_mlp(
    const BlockWeights& block,
    const NormWeights& norm,
    Rows& rows) {
  normalize(norm, rows);
  mlps_.compute(
      block.mlp,
      rows.normal.data(),
      rows.count(),
      rows.hidden.data(),
      true);
}

void T5Decoder::normalize(const NormWeights& norm, Rows& rows) const {
  operations_.normalize(norm, rows.hidden.data(), rows.all, rows.normal.data());
}

} // namespace cairn::generate
