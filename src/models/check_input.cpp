#include "models/check_input.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::models {

namespace {

struct IdRange {
  std::int64_t limit; ///< ids are below it
  bool may_be_negative = false;
};

/// Throws DataError unless the ids are 64-bit, [batch, sequence], within the
/// range.
void check_ids(const at::Tensor& ids, IdRange range, const char* what) {
  if (ids.dim() != 2 || ids.scalar_type() != at::kLong) {
    throw DataError(
        {.what =
             fmt::format("{} are 64-bit integers, [batch, sequence]", what)});
  }
  if (!ids.is_cpu() || ids.numel() == 0) {
    return;
  }
  const auto [low, high] = at::aminmax(ids);
  const auto lowest = low.item<std::int64_t>();
  const auto highest = high.item<std::int64_t>();
  if (highest >= range.limit || (lowest < 0 && !range.may_be_negative)) {
    throw DataError(
        {.what = fmt::format("{} out of range", what),
         .values = fmt::format(
             "{} to {}, where the model has {}",
             lowest,
             highest,
             range.limit),
         .remedy = "use the tokenizer and lengths that the model was made "
                   "for"});
  }
}

void check_shape(
    const at::Tensor& x,
    const at::Tensor& like,
    const char* what) {
  if (x.defined() && x.sizes() != like.sizes()) {
    throw DataError(
        {.what = fmt::format("{} are not shaped as the tokens", what),
         .values = fmt::format(
             "[{}] and [{}]",
             fmt::join(x.sizes(), ", "),
             fmt::join(like.sizes(), ", "))});
  }
}

void check_kept(const ModelInput& input) {
  const at::Tensor& kept = input.kept;
  if (kept.dim() != 3 || kept.scalar_type() != at::kLong ||
      kept.size(1) != input.tokens.size(0) ||
      kept.size(2) > input.tokens.size(1) || input.sequence_ranks > 1) {
    throw DataError(
        {.what = "kept tokens are 64-bit integers, [layers, batch, kept], of "
                 "whole sequences",
         .values = fmt::format("[{}]", fmt::join(kept.sizes(), ", "))});
  }
}

void check_samples(const ModelInput& input) {
  const at::Tensor& samples = input.samples;
  if (samples.dim() != 1 || samples.scalar_type() != at::kLong ||
      samples.size(0) != input.tokens.size(0)) {
    throw DataError(
        {.what = "the numbers of samples are 64-bit integers, [batch]",
         .values = fmt::format("[{}]", fmt::join(samples.sizes(), ", "))});
  }
}

void check_positions(const ModelInput& input, const ModelDescription& d) {
  // RoBERTa's padding has a position before the first.
  check_ids(
      d.position_offset == 0 ? input.positions
                             : input.positions + d.position_offset,
      {.limit = d.position == model::PositionKind::learned
           ? d.positions
           : input.tokens.size(1) * input.sequence_ranks},
      "positions");
}

} // namespace

void check_input(const ModelInput& input, const ModelDescription& d) {
  if (!input.tokens.defined()) {
    throw DataError({.what = "a model needs tokens"});
  }
  check_ids(input.tokens, {.limit = d.vocabulary}, "tokens");
  const bool t5 = d.family == model::ModelFamily::t5;
  if (t5 && !input.decoder_tokens.defined()) {
    throw DataError({.what = "a T5 needs tokens for its decoder"});
  }
  const at::Tensor& asked = t5 ? input.decoder_tokens : input.tokens;
  if (t5) {
    check_ids(asked, {.limit = d.vocabulary}, "the decoder's tokens");
  }
  check_shape(input.labels, asked, "labels");
  check_shape(input.loss_mask, asked, "loss masks");
  check_shape(input.positions, input.tokens, "positions");
  check_shape(input.token_types, input.tokens, "token types");
  check_shape(input.first_seen, input.tokens, "the first tokens seen");
  if (input.kept.defined()) {
    check_kept(input);
  }
  if (input.samples.defined()) {
    check_samples(input);
  }
  if (input.labels.defined()) {
    // Negative labels do not count.
    check_ids(
        input.labels,
        {.limit = d.vocabulary, .may_be_negative = true},
        "labels");
  }
  if (input.positions.defined()) {
    check_positions(input, d);
  }
  if (input.token_types.defined() && d.token_types > 0) {
    check_ids(input.token_types, {.limit = d.token_types}, "token types");
  }
}

} // namespace cairn::models
