#include "generate/cached_decoder.h"

#include "kernels/internal/cpu/cpu.h"
#include "kernels/internal/element_of.h"
#include "kernels/internal/in_parallel.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace cairn::generate {
namespace {

using kernels::cpu::RowActivation;
using kernels::cpu::RowNorm;
using kernels::cpu::RowProduct;

/// Outputs of a product that a thread computes at least.
constexpr std::int64_t outputs_at_once = 16;
/// Fewer multiplications than this are not worth waking a thread for.
constexpr std::int64_t work_worth_threads = 1 << 16;

RowActivation activation_of(model::ActivationKind kind) {
  switch (kind) {
    case model::ActivationKind::gelu:
      return RowActivation::gelu;
    case model::ActivationKind::gelu_tanh:
      return RowActivation::gelu_tanh;
    case model::ActivationKind::relu:
      return RowActivation::relu;
    case model::ActivationKind::silu:
      break;
  }
  return RowActivation::silu;
}

/// Calls body(begin, end) on parts that together cover [0, count), on all
/// threads if there is `work` for them.
template <class Body>
void share_work(std::int64_t count, std::int64_t work, const Body& body) {
  if (work < work_worth_threads) {
    body(std::int64_t{0}, count);
  } else {
    kernels::in_parallel(count, body);
  }
}

/// Calls body(begin, end) for stretches of a linear layer's outputs.
template <class Body>
void for_outputs(
    const LinearWeights& linear,
    std::int64_t rows,
    const Body& body) {
  const std::int64_t outputs = linear.outputs;
  share_work(
      (outputs + outputs_at_once - 1) / outputs_at_once,
      rows * outputs * linear.matrix.inputs,
      [&](std::int64_t begin, std::int64_t end) {
        body(begin * outputs_at_once, std::min(outputs, end * outputs_at_once));
      });
}

template <class Body>
void for_rows(std::int64_t rows, std::int64_t work_of_row, const Body& body) {
  share_work(
      rows,
      rows * work_of_row,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          body(i);
        }
      });
}

RowProduct product_of(
    const LinearWeights& linear,
    const float* x,
    std::int64_t rows,
    float* y) {
  return {
      .x = x,
      .x_step = linear.matrix.inputs,
      .rows = rows,
      .weight = linear.matrix,
      .bias = linear.bias_data(),
      .y = y,
      .y_step = linear.outputs};
}

void resize(
    std::vector<float>& values,
    std::size_t rows,
    std::int64_t columns) {
  const std::size_t size = rows * static_cast<std::size_t>(columns);
  if (values.size() < size) {
    values.resize(size);
  }
}

} // namespace

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
      kernels_(kernels::cpu::decoder_table()) {}

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
  scored_rows_.clear();
  std::int64_t longest = 0;
  for (const TokenRow& row : tokens) {
    longest = std::max(longest, row.position + 1);
    if (row.scored) {
      scored_rows_.push_back(std::ssize(rows_));
    }
    rows_.push_back({row.token, row.position, texts_.pages(row.place)});
  }
  all_rows_.resize(rows_.size());
  std::iota(all_rows_.begin(), all_rows_.end(), std::int64_t{0});
  rotary_.grow(longest);
  const std::size_t rows = rows_.size();
  resize(hidden_, rows, model_.hidden);
  resize(normal_, rows, model_.hidden);
  resize(projected_, rows, projected_columns());
  resize(attended_, rows, part_.queries.count * model_.head_size);
  resize(up_, rows, part_.ffn.count);
  if (model_.gated) {
    resize(gate_, rows, part_.ffn.count);
  }
  if (part_.is_shared()) {
    resize(partial_, rows, model_.hidden);
  }
}

std::span<float> CachedDecoder::stream() {
  return std::span(hidden_).first(
      rows_.size() * static_cast<std::size_t>(model_.hidden));
}

void CachedDecoder::embed() {
  const std::int64_t hidden = model_.hidden;
  const auto* words =
      static_cast<const char*>(weights_->words.const_data_ptr());
  const kernels::Element element =
      *kernels::element_of(weights_->words.scalar_type());
  const std::int64_t row_bytes = hidden * kernels::bytes_of(element);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    float* x = hidden_.data() + static_cast<std::int64_t>(i) * hidden;
    const std::int64_t word = rows_[i].token - part_.words.begin;
    if (word < 0 || word >= part_.words.count) {
      std::fill_n(x, hidden, 0.F); // another rank has it
      continue;
    }
    kernels::cpu::convert(
        words + word * row_bytes,
        element,
        x,
        kernels::Element::fp32,
        hidden);
  }
  if (part_.is_shared()) {
    links_.sum(stream());
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
    resize(joined_, scored_rows_.size(), model_.vocabulary);
    links_.from_last_stage(std::span(joined_).first(all));
    return std::span(joined_).first(all);
  }
  normalize(weights_->final_norm, scored_rows_);
  resize(scores_, scored_rows_.size(), part_.most_words);
  multiply(weights_->head, normal_.data(), rows, scores_.data(), false);
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
  resize(gathered_, static_cast<std::size_t>(ranks), most);
  links_.gather(
      std::span(scores_).first(static_cast<std::size_t>(most)),
      std::span(gathered_).first(static_cast<std::size_t>(ranks * most)));
  if (part_.place.tensor_rank > 0) {
    return {};
  }
  resize(joined_, static_cast<std::size_t>(rows), model_.vocabulary);
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

void CachedDecoder::compute_block(
    std::int64_t layer,
    const BlockWeights& block) {
  const auto rows = static_cast<std::int64_t>(rows_.size());
  normalize(block.input_norm, all_rows_);
  multiply(
      block.query_key_value,
      normal_.data(),
      rows,
      projected_.data(),
      false);
  keep_keys_and_values(layer);
  attend(layer);
  add_to_stream(block.dense, attended_.data());
  normalize(block.post_attention_norm, all_rows_);
  activate_mlp(block);
  add_to_stream(block.down, block.gate ? gate_.data() : up_.data());
}

/// Adds a product to the residual stream. Where ranks share the layer, each has
/// a part of the sum.
void CachedDecoder::add_to_stream(const LinearWeights& linear, const float* x) {
  const auto rows = static_cast<std::int64_t>(rows_.size());
  if (!part_.is_shared()) {
    multiply(linear, x, rows, hidden_.data(), true);
    return;
  }
  multiply(linear, x, rows, partial_.data(), false);
  const std::span<float> stream = this->stream();
  links_.sum(std::span(partial_).first(stream.size()));
  std::ranges::transform(stream, partial_, stream.begin(), std::plus<>());
}

/// Writes the norms of the named rows of the residual stream, one after the
/// other.
void CachedDecoder::normalize(
    const NormWeights& norm,
    std::span<const std::int64_t> rows) {
  const std::int64_t hidden = model_.hidden;
  for_rows(std::ssize(rows), 8 * hidden, [&](std::int64_t i) {
    kernels_.normalize(
        {.kind = model_.norm == model::NormKind::layer_norm
             ? RowNorm::layer_norm
             : RowNorm::rms_norm,
         .x = hidden_.data() + rows[static_cast<std::size_t>(i)] * hidden,
         .size = hidden,
         .weight = norm.weight.const_data_ptr<float>(),
         .bias = norm.bias_data(),
         .epsilon = static_cast<float>(model_.norm_epsilon),
         .y = normal_.data() + i * hidden});
  });
}

void CachedDecoder::multiply(
    const LinearWeights& linear,
    const float* x,
    std::int64_t rows,
    float* y,
    bool adds) {
  RowProduct product = product_of(linear, x, rows, y);
  product.adds = adds;
  for_outputs(linear, rows, [&](std::int64_t begin, std::int64_t end) {
    RowProduct part = product;
    part.begin = begin;
    part.end = end;
    kernels_.multiply(part);
  });
}

/// Turns queries and keys by their positions, and writes keys and values into
/// the pages of their texts.
void CachedDecoder::keep_keys_and_values(std::int64_t layer) {
  const std::int64_t work = 8 * part_.queries.count * model_.head_size;
  for_rows(std::ssize(rows_), work, [&](std::int64_t i) {
    keep_row(layer, static_cast<std::size_t>(i));
  });
}

void CachedDecoder::keep_row(std::int64_t layer, std::size_t row) {
  const CacheShape& shape = texts_.shape();
  const std::int64_t size = model_.head_size;
  const std::int64_t queries = queries_of_group();
  const std::int64_t position = rows_[row].position;
  const std::int64_t place = position % shape.page_tokens;
  float* page =
      rows_[row].pages[static_cast<std::size_t>(position / shape.page_tokens)];
  float* head =
      projected_.data() + static_cast<std::int64_t>(row) * projected_columns();
  for (std::int64_t group = 0; group < part_.groups.count; ++group) {
    for (std::int64_t i = 0; i < queries; ++i, head += size) {
      rotary_.turn(head, position);
    }
    rotary_.turn(head, position);
    float* key = page + shape.keys_at(layer, group) + place;
    for (std::int64_t i = 0; i < size; ++i) {
      key[i * shape.page_tokens] = head[i];
    }
    head += size;
    std::copy_n(
        head,
        size,
        page + shape.values_at(layer, group) + place * size);
    head += size;
  }
}

void CachedDecoder::attend(std::int64_t layer) {
  const CacheShape& shape = texts_.shape();
  const auto rows = static_cast<std::int64_t>(rows_.size());
  const std::int64_t size = model_.head_size;
  const std::int64_t groups = part_.groups.count;
  const std::int64_t queries = queries_of_group();
  const std::int64_t projected = projected_columns();
  std::size_t most_pages = 0;
  std::int64_t seen = 0; // tokens, by all rows
  for (const Row& row : rows_) {
    most_pages = std::max(most_pages, row.pages.size());
    seen += row.position + 1;
  }
  // Rows differ in length, heads do not: threads share the heads.
  share_work(
      groups * rows,
      2 * seen * part_.queries.count * size,
      [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> scores(
            most_pages * static_cast<std::size_t>(shape.page_tokens));
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t group = i / rows;
          const std::int64_t row = i % rows;
          const Row& own = rows_[static_cast<std::size_t>(row)];
          kernels_.attend(
              {.query = projected_.data() + row * projected +
                   group * (queries + 2) * size,
               .heads = queries,
               .head_size = size,
               .scale =
                   static_cast<float>(1 / std::sqrt(static_cast<double>(size))),
               .pages = own.pages.data(),
               .page_tokens = shape.page_tokens,
               .keys_at = shape.keys_at(layer, group),
               .values_at = shape.values_at(layer, group),
               .length = own.position + 1,
               .scores = scores.data(),
               .result =
                   attended_.data() + (row * groups + group) * queries * size});
        }
      });
}

/// Computes up and gate, and the activation of each output by the thread that
/// computed it.
void CachedDecoder::activate_mlp(const BlockWeights& block) {
  const auto rows = static_cast<std::int64_t>(rows_.size());
  const RowActivation kind = activation_of(model_.activation);
  for_outputs(block.up, rows, [&](std::int64_t begin, std::int64_t end) {
    RowProduct up = product_of(block.up, normal_.data(), rows, up_.data());
    up.begin = begin;
    up.end = end;
    kernels_.multiply(up);
    if (block.gate) {
      RowProduct gate =
          product_of(*block.gate, normal_.data(), rows, gate_.data());
      gate.begin = begin;
      gate.end = end;
      kernels_.multiply(gate);
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t first = row * block.up.outputs + begin;
      kernels_.activate(
          kind,
          (block.gate ? gate_.data() : up_.data()) + first,
          block.gate ? up_.data() + first : nullptr,
          end - begin);
    }
  });
}

} // namespace cairn::generate
