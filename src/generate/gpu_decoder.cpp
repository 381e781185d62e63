#include "generate/gpu_decoder.h"

#include "generate/room_at_experts.h"
#include "kernels/internal/cuda/kept_attention.h"
#include "kernels/internal/cuda/token_choice.h"
#include "kernels/internal/element_of.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <cairn/base/error.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <tuple>

namespace cairn::generate {
namespace {

using kernels::cuda::ScorePeak;

constexpr std::int64_t peak_words = sizeof(ScorePeak) / sizeof(std::int32_t);
/// Rows of prompts whose scores are computed at a time.
constexpr std::int64_t scored_at_once = 256;

std::int64_t rounded_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Rows that a step computes for `count` texts: sizes are few, because each is
/// recorded.
std::int64_t rows_for(std::int64_t count) {
  const auto power = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(count)));
  return power >= 16 && count <= power / 4 * 3 ? power / 4 * 3 : power;
}

/// Rows that a pass over prompts computes for `count` tokens: libraries prepare
/// themselves for every new size.
std::int64_t prompt_rows_for(std::int64_t count) {
  return rounded_up(count, count <= 512 ? 64 : count <= 2048 ? 256 : 512);
}

at::Tensor page_locked(
    at::IntArrayRef sizes,
    at::ScalarType type,
    at::Device device) {
  return at::empty(
      sizes,
      at::TensorOptions(type).pinned_memory(device.is_cuda()));
}

/// True where choose_tokens() takes the choice.
bool on_gpu(const std::optional<TokenChoice>& choice) {
  return choice && choice->among <= kernels::cuda::most_choices;
}

GpuCacheShape gpu_cache_of(
    const models::ModelDescription& model,
    at::ScalarType type,
    at::Device device,
    const TextBatchOptions& options) {
  GpuCacheShape shape{
      .layers = model.layers,
      .heads = model.key_value_heads,
      .head_size = model.head_size,
      .page_tokens = options.page_tokens,
      .most_texts = options.most_texts,
      .longest = model.positions};
  if (options.cache_tokens) {
    shape.most_pages = shape.pages_of(*options.cache_tokens);
    return shape;
  }
  const auto page_bytes =
      shape.page_elements() * static_cast<std::int64_t>(c10::elementSize(type));
  shape.most_pages = std::clamp(
      free_bytes(device) / 2 / page_bytes,
      std::int64_t{1},
      options.most_texts * shape.pages_of(model.positions));
  return shape;
}

} // namespace

bool GpuDecoder::takes(const models::ModelDescription& model) {
  return !model.query_key_norm && !model.parallel_residual &&
      model::rotary_elements(model) == model.head_size &&
      model.head_size <= kernels::cuda::longest_kept_head;
}

GpuDecoder::GpuDecoder(
    const models::Transformer& model,
    at::ScalarType type,
    const TextBatchOptions& options,
    const GpuStepOptions& step)
    : model_(model.description()),
      options_(step),
      most_rows_(rows_for(options.most_texts)) {
  const at::NoGradGuard no_grad;
  const at::Device device = model.parameters().front().device();
  stream_ = make_stream(device);
  GpuWeights weights = GpuWeights::of(model, type);
  const GpuCacheShape shape = gpu_cache_of(model_, type, device, options);
  layers_ = std::make_unique<GpuLayers>(
      model_,
      std::move(weights),
      model_.positions,
      step);
  if (layers_->widest_bytes() >= step.whole_from) {
    whole_step_ =
        WholeStep::make(model_, layers_->weights(), step.shares_units);
  }
  for (const GpuBlock& block : layers_->weights().blocks) {
    if (block.mixture) {
      mixtures_.push_back(block.mixture.get());
    }
  }
  options_.records = options_.records && layers_->can_be_recorded();
  cache_ = std::make_unique<GpuCache>(shape, type, device, *stream_);
  memory_ = layers_->memory(most_rows_);
  const auto on_device = at::TensorOptions(device);
  inputs_ = at::empty({5 * most_rows_}, on_device.dtype(at::kInt));
  host_inputs_ = page_locked({5 * most_rows_}, at::kInt, device);
  scores_ = at::empty(
      {most_rows_, layers_->score_columns()},
      on_device.dtype(at::kFloat));
  row_peaks_ = at::empty({most_rows_, peak_words}, on_device.dtype(at::kInt));
  make_room_for_results(most_rows_);
}

GpuDecoder::~GpuDecoder() {
  try {
    stream_->wait();                // copies of pages may be under way
  } catch (const std::exception&) { // the GPU has failed
  }
}

std::int64_t GpuDecoder::longest() const {
  const GpuCacheShape& shape = cache_->shape();
  return std::min(model_.positions, shape.most_pages * shape.page_tokens);
}

void GpuDecoder::make_room_for_results(std::int64_t rows) {
  if (!host_scores_.defined() || host_scores_.size(0) < rows) {
    const at::Device device = inputs_.device();
    host_scores_ = page_locked({rows, model_.vocabulary}, at::kFloat, device);
    host_peaks_ = page_locked({rows, peak_words}, at::kInt, device);
  }
}

std::span<const float> GpuDecoder::compute(std::span<const Piece> pieces) {
  const at::NoGradGuard no_grad;
  const RoomAtExperts room(mixtures_);
  std::vector<Row> rows;
  std::vector<Prompt> prompts;
  std::int64_t results = 0;
  for (const Piece& piece : pieces) {
    const std::int64_t end = std::ssize(piece.text);
    if (end == piece.begin + 1 && piece.scored == 1) {
      rows.push_back(
          {.token = piece.text.back(),
           .place = static_cast<std::int64_t>(piece.place),
           .position = piece.begin,
           .limit = piece.peak_of > 0 ? piece.peak_of : model_.vocabulary,
           .reads_scores = piece.peak_of == 0 && !on_gpu(piece.choice),
           .result = results,
           .choice = on_gpu(piece.choice) ? &*piece.choice : nullptr,
           .text_length = std::ssize(piece.all)});
    } else {
      prompts.push_back(
          {&piece,
           {.place = static_cast<std::int64_t>(piece.place),
            .begin = piece.begin,
            .end = end},
           results});
    }
    results += piece.scored;
  }
  make_room_for_results(results);
  stream_->run([&] {
    cache_->send_table();
    if (!prompts.empty()) {
      read(std::move(prompts));
    }
    if (!rows.empty()) {
      decode(rows);
    }
  });
  stream_->wait();
  peaks_.clear();
  const auto* const peaks =
      static_cast<const ScorePeak*>(host_peaks_.const_data_ptr());
  for (std::int64_t i = 0; i < results; ++i) {
    peaks_.push_back({peaks[i].column, peaks[i].highest, peaks[i].log_sum});
  }
  return {
      host_scores_.const_data_ptr<float>(),
      static_cast<std::size_t>(results * model_.vocabulary)};
}

kernels::cuda::TextRows GpuDecoder::rows_at(
    const at::Tensor& inputs,
    std::int64_t rows) const {
  const auto* first = inputs.const_data_ptr<std::int32_t>();
  return {rows, first, first + rows, first + 2 * rows, first + 3 * rows};
}

/// Brings the tokens of `count` rows to the GPU, then their places, their
/// positions, their angles and the limits of their peaks. Rows behind the texts
/// are of nobody.
void GpuDecoder::send_inputs(std::span<const Row> rows, std::int64_t count) {
  auto* const to = host_inputs_.mutable_data_ptr<std::int32_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const Row row = i < std::ssize(rows)
        ? rows[static_cast<std::size_t>(i)]
        : Row{0, cache_->spare_place(), 0, model_.vocabulary, false, 0};
    to[i] = static_cast<std::int32_t>(row.token);
    to[count + i] = static_cast<std::int32_t>(row.place);
    to[2 * count + i] = static_cast<std::int32_t>(row.position);
    to[3 * count + i] = static_cast<std::int32_t>(
        layers_->angle(row.position, row.text_length));
    to[4 * count + i] = static_cast<std::int32_t>(row.limit);
  }
  inputs_.narrow(0, 0, 5 * count)
      .copy_(host_inputs_.narrow(0, 0, 5 * count), /*non_blocking=*/true);
}

void GpuDecoder::find_peaks(
    const at::Tensor& scores,
    const std::int32_t* limits,
    const at::Tensor& peaks) const {
  const char* failure = kernels::cuda::find_peaks(
      {.rows = scores.size(0),
       .columns = model_.vocabulary,
       .step = scores.stride(0),
       .scores = scores.const_data_ptr<float>(),
       .limits = limits},
      static_cast<ScorePeak*>(peaks.mutable_data_ptr()),
      options_.early ? kernels::cuda::Start::early
                     : kernels::cuda::Start::after,
      stream_->handle());
  if (failure != nullptr) {
    throw Error(
        {.what = "the GPU refused to look for the likeliest tokens",
         .values = failure});
  }
}

/// Chooses the tokens of rows of scores: their peaks become those of the chosen
/// tokens.
void GpuDecoder::choose_tokens(
    std::span<const RowChoice> choices,
    const at::Tensor& scores,
    const at::Tensor& peaks) const {
  using kernels::cuda::TokenRule;
  if (choices.empty()) {
    return;
  }
  std::vector<TokenRule> rules;
  std::vector<std::int32_t> penalized;
  for (const auto& [choice, row] : choices) {
    const Sampling& sampling = choice->sampling;
    TokenRule rule{
        .top_p = sampling.top_p,
        .chance = choice->chance,
        .sharpness = kernels::cuda::sharpness_of(sampling.temperature),
        .penalty = static_cast<float>(sampling.repetition_penalty),
        .row = static_cast<std::int32_t>(row),
        .among = static_cast<std::int32_t>(choice->among),
        .top_k = sampling.greedy ? 1
                                 : static_cast<std::int32_t>(
                                       std::min(sampling.top_k, choice->among)),
        .first_penalized = static_cast<std::int32_t>(penalized.size())};
    const std::int64_t never = choice->never.value_or(-1);
    rule.never = never < choice->among
        ? static_cast<std::int32_t>(std::max<std::int64_t>(never, -1))
        : -1;
    for (const std::int64_t token : choice->penalized) {
      penalized.push_back(static_cast<std::int32_t>(token));
    }
    rule.penalized = static_cast<std::int32_t>(
        penalized.size() - static_cast<std::size_t>(rule.first_penalized));
    rules.push_back(rule);
  }
  const std::size_t rule_bytes = rules.size() * sizeof(TokenRule);
  const std::size_t list_bytes = penalized.size() * sizeof(std::int32_t);
  const auto bytes = static_cast<std::int64_t>(rule_bytes + list_bytes);
  const at::Tensor host = page_locked({bytes}, at::kByte, scores.device());
  auto* const to = static_cast<std::byte*>(host.mutable_data_ptr());
  std::memcpy(to, rules.data(), rule_bytes);
  if (list_bytes > 0) {
    std::memcpy(to + rule_bytes, penalized.data(), list_bytes);
  }
  const at::Tensor sent = host.to(scores.device(), /*non_blocking=*/true);
  const at::Tensor before =
      at::empty({std::ssize(penalized)}, scores.options());
  const auto* const first =
      static_cast<const std::byte*>(sent.const_data_ptr());
  const char* failure = kernels::cuda::choose_tokens(
      {.count = std::ssize(rules),
       .rules = reinterpret_cast<const TokenRule*>(first),
       .step = scores.stride(0),
       .scores = scores.mutable_data_ptr<float>(),
       .penalized = reinterpret_cast<const std::int32_t*>(first + rule_bytes),
       .before = before.mutable_data_ptr<float>()},
      static_cast<ScorePeak*>(peaks.mutable_data_ptr()),
      stream_->handle());
  if (failure != nullptr) {
    throw Error(
        {.what = "the GPU refused to choose tokens", .values = failure});
  }
}

void GpuDecoder::queue_step(const Kind& kind, const Step& step) {
  const at::NoGradGuard no_grad;
  const at::Tensor scores = scores_.narrow(0, 0, kind.rows);
  const kernels::cuda::TextRows rows = rows_at(inputs_, kind.rows);
  if (kind.rows == 1 && whole_step_) {
    whole_step_->queue(rows, *cache_, scores, stream_->handle());
  } else {
    layers_->decode(
        rows,
        *cache_,
        step.splits,
        memory_,
        scores,
        stream_->handle());
  }
  find_peaks(
      scores,
      rows.angles + kind.rows,
      row_peaks_.narrow(0, 0, kind.rows));
}

/// Queues a step of the kind. It is run when it is first met, so that libraries
/// can prepare themselves, and recorded the second time.
void GpuDecoder::run_step(const Kind& kind) {
  const auto [found, is_new] = steps_.try_emplace(kind);
  Step& step = found->second;
  if (is_new) {
    step.splits = layers_->make_splits(kind.rows, kind.splits);
  }
  if (!step.was_run || !options_.records) {
    queue_step(kind, step);
    step.was_run = true;
    return;
  }
  if (!step.recording) {
    step.recording =
        stream_->record([this, kind, &step] { queue_step(kind, step); });
  }
  step.recording->repeat();
}

/// Computes one token of each text.
void GpuDecoder::decode(std::span<const Row> rows) {
  const std::int64_t count = rows_for(std::ssize(rows));
  send_inputs(rows, count);
  if (count == 1 && whole_step_) {
    queue_step({.rows = 1, .splits = 1}, {}); // two kernels: no need to record
  } else {
    std::int64_t longest = 0;
    for (const Row& row : rows) {
      longest = std::max(longest, row.position + 1);
    }
    run_step({count, layers_->splits(count, longest)});
  }
  std::vector<RowChoice> choices;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].choice != nullptr) {
      choices.push_back({rows[i].choice, static_cast<std::int64_t>(i)});
    }
  }
  choose_tokens(choices, scores_, row_peaks_);
  fetch_results(rows);
}

/// Queues copies of what a step has found. Rows whose results follow each other
/// are fetched together.
void GpuDecoder::fetch_results(std::span<const Row> rows) {
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t last = first + 1;
    const auto joins = [&](const Row& row) {
      return row.result ==
          rows[first].result + static_cast<std::int64_t>(last - first) &&
          row.reads_scores == rows[first].reads_scores;
    };
    while (last < rows.size() && joins(rows[last])) {
      ++last;
    }
    const auto some = static_cast<std::int64_t>(last - first);
    const auto begin = static_cast<std::int64_t>(first);
    host_peaks_.narrow(0, rows[first].result, some)
        .copy_(row_peaks_.narrow(0, begin, some), /*non_blocking=*/true);
    if (rows[first].reads_scores) {
      fetch_scores(scores_, begin, some, rows[first].result);
    }
    first = last;
  }
}

void GpuDecoder::fetch_scores(
    const at::Tensor& scores,
    std::int64_t first,
    std::int64_t rows,
    std::int64_t result) {
  host_scores_.narrow(0, result, rows)
      .copy_(
          scores.narrow(0, first, rows).narrow(1, 0, model_.vocabulary),
          /*non_blocking=*/true);
}

/// Computes pieces of prompts in one pass.
void GpuDecoder::read(std::vector<Prompt> prompts) {
  std::ranges::stable_sort(prompts, {}, [&](const Prompt& prompt) {
    return std::tuple(
        !layers_->is_short(prompt.rows),
        prompt.rows.begin,
        prompt.rows.end);
  });
  std::int64_t used = 0;
  std::vector<PromptRows> pieces;
  for (Prompt& prompt : prompts) {
    prompt.rows.row = used;
    used += prompt.rows.count();
    pieces.push_back(prompt.rows);
  }
  const std::int64_t count = prompt_rows_for(used);
  at::Tensor inputs = at::empty({4 * count}, at::TensorOptions(at::kInt));
  auto* const to = inputs.mutable_data_ptr<std::int32_t>();
  std::fill_n(to, count, 0);
  std::fill_n(to + count, count, cache_->spare_place());
  std::fill_n(to + 2 * count, 2 * count, 0);
  for (const Prompt& prompt : prompts) {
    const PromptRows& rows = prompt.rows;
    for (std::int64_t i = 0; i < rows.count(); ++i) {
      const auto position = static_cast<std::size_t>(rows.begin + i);
      to[rows.row + i] =
          static_cast<std::int32_t>(prompt.piece->text[position]);
      to[count + rows.row + i] = static_cast<std::int32_t>(rows.place);
      to[2 * count + rows.row + i] = static_cast<std::int32_t>(position);
      to[3 * count + rows.row + i] = static_cast<std::int32_t>(
          layers_->angle(rows.begin + i, std::ssize(prompt.piece->all)));
    }
  }
  inputs = inputs.to(inputs_.device());
  const at::Tensor hidden = layers_->read(
      rows_at(inputs, count),
      pieces,
      *cache_,
      layers_->memory(count),
      stream_->handle());
  score_prompts(prompts, hidden);
}

/// Fetches the scores of the tokens of prompts that are asked for, some rows at
/// a time.
void GpuDecoder::score_prompts(
    std::span<const Prompt> prompts,
    const at::Tensor& hidden) {
  struct Scored {
    std::int32_t row;
    std::int32_t limit;
    std::int64_t result;
    bool reads_scores; ///< not the peak alone
    const TokenChoice* choice;
  };
  std::vector<Scored> all;
  for (const Prompt& prompt : prompts) {
    const std::int64_t scored = prompt.piece->scored;
    const std::int64_t first = prompt.rows.row + prompt.rows.count() - scored;
    for (std::int64_t i = 0; i < scored; ++i) {
      all.push_back(
          {static_cast<std::int32_t>(first + i),
           static_cast<std::int32_t>(
               prompt.piece->peak_of > 0 ? prompt.piece->peak_of
                                         : model_.vocabulary),
           prompt.result + i,
           prompt.piece->peak_of == 0 && !on_gpu(prompt.piece->choice),
           on_gpu(prompt.piece->choice) && i == scored - 1
               ? &*prompt.piece->choice
               : nullptr});
    }
  }
  const at::Device device = inputs_.device();
  for (std::size_t first = 0; first < all.size(); first += scored_at_once) {
    const auto some = std::span(all).subspan(
        first,
        std::min<std::size_t>(scored_at_once, all.size() - first));
    std::vector<std::int32_t> words;
    const auto rows = rows_for(std::ssize(some));
    for (std::int64_t i = 0; i < 2 * rows; ++i) {
      const auto& each = some[static_cast<std::size_t>(
          std::min(i % rows, std::ssize(some) - 1))];
      words.push_back(i < rows ? each.row : each.limit);
    }
    const at::Tensor named =
        at::tensor(words, at::TensorOptions(at::kInt)).to(device);
    const at::Tensor scores = at::empty(
        {rows, layers_->score_columns()},
        at::TensorOptions(device).dtype(at::kFloat));
    const at::Tensor peaks = at::empty(
        {rows, peak_words},
        at::TensorOptions(device).dtype(at::kInt));
    layers_->score(hidden, named.narrow(0, 0, rows), scores, stream_->handle());
    find_peaks(scores, named.const_data_ptr<std::int32_t>() + rows, peaks);
    std::vector<RowChoice> choices;
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (some[i].choice != nullptr) {
        choices.push_back({some[i].choice, static_cast<std::int64_t>(i)});
      }
    }
    choose_tokens(choices, scores, peaks);
    // Results of one text follow each other.
    for (std::size_t i = 0; i < some.size();) {
      std::size_t end = i + 1;
      while (end < some.size() &&
             some[end].reads_scores == some[i].reads_scores &&
             some[end].result ==
                 some[i].result + static_cast<std::int64_t>(end - i)) {
        ++end;
      }
      const auto begin = static_cast<std::int64_t>(i);
      const auto length = static_cast<std::int64_t>(end - i);
      host_peaks_.narrow(0, some[i].result, length)
          .copy_(peaks.narrow(0, begin, length), /*non_blocking=*/true);
      if (some[i].reads_scores) {
        fetch_scores(scores, begin, length, some[i].result);
      }
      i = end;
    }
  }
}

} // namespace cairn::generate
