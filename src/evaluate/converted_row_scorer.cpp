#include "evaluate/converted_row_scorer.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>

namespace cairn::evaluate {
namespace {

std::shared_ptr<models::Transformer> load(
    const models::StoredModel& stored,
    at::ScalarType dtype) {
  models::ModelOptions options;
  options.dtype = dtype;
  return models::load_model(stored, options);
}

std::int64_t longest_of(std::span<const TextRow> rows) {
  std::size_t longest = 1;
  for (const TextRow& row : rows) {
    longest = std::max(longest, row.tokens.size());
  }
  return static_cast<std::int64_t>(longest);
}

RowScore score_of(generate::TokenScorer& scorer, const TextRow& row) {
  RowScore result;
  const std::vector<std::int64_t> tokens(row.tokens.begin(), row.tokens.end());
  for (const generate::ScoredToken& token :
       scorer.score(tokens, row.scored, /*likeliest=*/1)) {
    result.loss -= double{token.log_probability};
    result.all_likeliest =
        result.all_likeliest && token.likeliest.at(0).first == token.id;
  }
  return result;
}

} // namespace

ConvertedRowScorer::ConvertedRowScorer(
    const models::StoredModel& stored,
    const distributed::World& world,
    const ConvertedRowScorerOptions& options)
    : world_(world.group()),
      device_(world_.backend() == "nccl" ? world.device_name() : "cpu"),
      model_(load(stored, options.dtype)),
      options_(options) {}

std::vector<RowScore> ConvertedRowScorer::score(
    std::span<const TextRow> rows,
    const RowScorer::Watch& watch) {
  generate::TextBatchOptions batch;
  batch.weights = options_.weights;
  batch.cache_tokens = longest_of(rows);
  generate::TokenScorer scorer(model_, batch);
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t ranks = world_.size();
  const std::int64_t at_once = options_.rows * ranks;
  // Loss, and 1 if all tokens are the likeliest. Others' rows stay zero.
  const at::Tensor all = at::zeros({count, 2}, at::kDouble);
  auto* const values = all.mutable_data_ptr<double>();
  for (std::int64_t begin = 0; begin < count; begin += at_once) {
    const std::int64_t end = std::min(count, begin + at_once);
    RowScorer::Advance advance{.micro_batches = 1, .rows = end - begin};
    for (std::int64_t i = begin; i < end; ++i) {
      advance.tokens += std::ssize(rows[static_cast<std::size_t>(i)].tokens);
    }
    if (watch.begins) {
      watch.begins(advance);
    }
    for (std::int64_t i = begin + world_.rank(); i < end; i += ranks) {
      const RowScore score =
          score_of(scorer, rows[static_cast<std::size_t>(i)]);
      values[2 * i] = score.loss;
      values[2 * i + 1] = score.all_likeliest ? 1 : 0;
    }
    if (watch.done) {
      watch.done(advance);
    }
  }
  const at::Tensor agreed = ranks > 1
      ? world_.all_reduce(all.to(device_)).wait().cpu().contiguous()
      : all;
  const auto* const sums = agreed.const_data_ptr<double>();
  std::vector<RowScore> result(rows.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = {sums[2 * i], sums[2 * i + 1] != 0};
  }
  return result;
}

} // namespace cairn::evaluate
