#include "generate/cached_decoder.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace cairn::generate {
CachedDecoder::CachedDecoder(
    const models::ModelDescription& model,
    const ModelPart& part,
    std::shared_ptr<const DecoderWeights> weights,
    const CacheShape& cache,
    std::int64_t most_texts,
    RankLinks links)
    : model_(model),
      part_(part),
      weights_(std::move(weights)),
      links_(std::move(links)),
      texts_(cache, most_texts),
      rotary_(model_),
      operations_(model_) {}

std::span<const float> CachedDecoder::compute(
    std::span<const TokenRow> tokens) {
  list_rows(tokens);
  if (part_.first_stage) {
    embed();
  } else {
    links_.from_previous_stage(stream());
  }
  for (std::int64_t i = 0; i < part_.layers.count; ++i) {
    compute_block(i, weights_->blocks[static_cast<std::size_t>(i)]);
  }
  if (!part_.last_stage) {
    links_.to_next_stage(stream());
  }
  return scored_rows_.empty() ? std::span<const float>() : scores();
}

void CachedDecoder::list_rows(std::span<const TokenRow> tokens) {
  rows_.clear();
  tokens_.clear();
  scored_rows_.clear();
  std::int64_t longest = 0;
  for (const TokenRow& row : tokens) {
    longest = std::max({longest, row.position + 1, row.text_length});
    if (row.scored) {
      scored_rows_.push_back(std::ssize(rows_));
    }
    tokens_.push_back(row.token);
    rows_.push_back(
        {row.position,
         row.position + 1,
         texts_.pages(row.place),
         row.text_length});
  }
  all_rows_.resize(rows_.size());
  std::iota(all_rows_.begin(), all_rows_.end(), std::int64_t{0});
  rotary_.grow(longest);
  const std::size_t rows = rows_.size();
  make_rows(hidden_, rows, model_.hidden);
  make_rows(normal_, rows, model_.hidden);
  make_rows(projected_, rows, heads().columns());
  make_rows(attended_, rows, part_.queries.count * model_.head_size);
  if (part_.is_shared()) {
    make_rows(partial_, rows, model_.hidden);
  }
}

std::span<float> CachedDecoder::stream() {
  return std::span(hidden_).first(
      rows_.size() * static_cast<std::size_t>(model_.hidden));
}

void CachedDecoder::embed() {
  const std::int64_t hidden = model_.hidden;
  embed_words(tokens_, weights_->words, part_.words.begin, hidden_.data());
  if (part_.is_shared()) {
    links_.sum(stream()); // each word is on one rank
  }
  if (!weights_->positions.defined()) {
    return;
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    float* x = hidden_.data() + static_cast<std::int64_t>(i) * hidden;
    const float* position = weights_->positions.const_data_ptr<float>() +
        (rows_[i].position + model_.position_offset) * hidden;
    for (std::int64_t j = 0; j < hidden; ++j) {
      x[j] += position[j];
    }
  }
}

/// Computes the scores on the last stage, and brings them to the first rank.
std::span<const float> CachedDecoder::scores() {
  const auto rows = static_cast<std::int64_t>(scored_rows_.size());
  const auto all = static_cast<std::size_t>(rows * model_.vocabulary);
  if (!part_.last_stage) {
    if (!part_.first_stage || part_.place.tensor_rank > 0) {
      return {};
    }
    make_rows(joined_, scored_rows_.size(), model_.vocabulary);
    links_.from_last_stage(std::span(joined_).first(all));
    return std::span(joined_).first(all);
  }
  operations_.normalize(
      weights_->final_norm,
      hidden_.data(),
      scored_rows_,
      normal_.data());
  make_rows(scores_, scored_rows_.size(), part_.most_words);
  operations_
      .multiply(weights_->head, normal_.data(), rows, scores_.data(), false);
  const std::span<const float> joined =
      part_.is_shared() ? joined_scores(rows) : std::span(scores_).first(all);
  if (part_.first_stage || joined.empty()) {
    return joined;
  }
  links_.to_first_stage(
      {part_.is_shared() ? joined_.data() : scores_.data(), all});
  return {};
}

/// The scores of all words, on the first of the ranks that share them.
std::span<const float> CachedDecoder::joined_scores(std::int64_t rows) {
  const std::int64_t ranks = part_.place.tensor_ranks;
  const std::int64_t own = rows * part_.words.count;
  const std::int64_t most = rows * part_.most_words;
  std::fill_n(scores_.begin() + own, most - own, 0.F); // travels, unused
  make_rows(gathered_, static_cast<std::size_t>(ranks), most);
  links_.gather(
      std::span(scores_).first(static_cast<std::size_t>(most)),
      std::span(gathered_).first(static_cast<std::size_t>(ranks * most)));
  if (part_.place.tensor_rank > 0) {
    return {};
  }
  make_rows(joined_, static_cast<std::size_t>(rows), model_.vocabulary);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t begin =
        std::min(rank * part_.most_words, model_.vocabulary);
    const std::int64_t count =
        std::min(part_.most_words, model_.vocabulary - begin);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(
          gathered_.data() + rank * most + row * count,
          count,
          joined_.data() + row * model_.vocabulary + begin);
    }
  }
  return std::span(joined_).first(
      static_cast<std::size_t>(rows * model_.vocabulary));
}

/// `write` gives a part of the sum where ranks share the layer; the parts are
/// added up before they join the stream.
template <class Write>
void CachedDecoder::add_to_stream(const Write& write) {
  if (!part_.is_shared()) {
    write(hidden_.data(), true);
    return;
  }
  write(partial_.data(), false);
  const std::span<float> stream = this->stream();
  links_.sum(std::span(partial_).first(stream.size()));
  std::ranges::transform(stream, partial_, stream.begin(), std::plus<>());
}

void CachedDecoder::compute_block(
    std::int64_t layer,
    const BlockWeights& block) {
  const auto rows = std::ssize(rows_);
  const auto normalize = [&](const NormWeights& norm) {
    operations_.normalize(norm, hidden_.data(), all_rows_, normal_.data());
  };
  normalize(block.input_norm);
  operations_.multiply(
      block.query_key_value,
      normal_.data(),
      rows,
      projected_.data(),
      false);
  const CacheLayer cache{texts_.shape(), layer};
  operations_.keep(
      rows_,
      heads(),
      projected_.data(),
      cache,
      {&rotary_, &block.query_norm, &block.key_norm});
  operations_.attend(
      {.rows = rows_,
       .heads = heads(),
       .queries = projected_.data(),
       .row_step = heads().columns(),
       .group_step = heads().columns() / heads().groups,
       .cache = cache,
       .result = attended_.data()});
  if (model_.parallel_residual) { // before attention is added
    normalize(block.post_attention_norm);
  }
  add_to_stream([&](float* y, bool adds) {
    operations_.multiply(block.dense, attended_.data(), rows, y, adds);
  });
  if (!model_.parallel_residual) {
    normalize(block.post_attention_norm);
  }
  add_to_stream([&](float* y, bool adds) {
    mlps_.compute(block.mlp, normal_.data(), rows, y, adds);
  });
}

} // namespace cairn::generate
