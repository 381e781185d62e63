#include <cairn/models/pretraining.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <cairn/base/error.h>

#include <algorithm>
#include <tuple>

namespace cairn::models {
namespace {

bool has_field(const data::TensorBatch& batch, std::string_view name) {
  return std::ranges::any_of(batch.tensors, [&](const auto& each) {
    return each.first == name;
  });
}

ModelInput gpt_input(
    const data::TensorBatch& batch,
    const PretrainingOptions& options) {
  ModelInput input{.tokens = batch["tokens"]};
  input.labels = batch["labels"];
  input.loss_mask = batch["loss_mask"];
  input.positions = batch["position_ids"];
  if (const auto end = options.reset_attention_after) {
    if (options.documents_without_mask) {
      input.first_seen = document_begins(input.tokens, *end);
    } else {
      input.mask = document_mask(input.tokens, *end);
    }
  }
  return input;
}

ModelInput bert_input(
    const ModelDescription& d,
    const data::TensorBatch& batch) {
  ModelInput input{.tokens = batch["text"]};
  input.token_types = batch["types"];
  input.mask = batch["padding_mask"];
  input.labels = batch["labels"];
  input.loss_mask = batch["loss_mask"];
  input.most_labels = batch.most_labels;
  if (d.next_sentence_head) {
    input.next_sentence = batch["is_random"];
  }
  return input;
}

/// MlmDataset's labels are padding where nothing is asked.
ModelInput mlm_input(
    const ModelDescription& d,
    const data::TensorBatch& batch) {
  if (!d.pad_token) {
    throw ConfigError(
        {.what = "a model that fills in words has to know its padding token",
         .where = "pad_token"});
  }
  ModelInput input{.tokens = batch["tokens"]};
  input.mask = batch["attention_mask"];
  input.labels =
      batch["labels"].masked_fill(batch["labels"].eq(*d.pad_token), -100);
  return input;
}

ModelInput t5_input(const data::TensorBatch& batch) {
  ModelInput input{.tokens = batch["text_enc"]};
  input.decoder_tokens = batch["text_dec"];
  input.mask = batch["enc_mask"];
  input.decoder_mask = batch["dec_mask"];
  input.labels = batch["labels"];
  input.loss_mask = batch["loss_mask"];
  return input;
}

} // namespace

at::Tensor document_mask(const at::Tensor& tokens, std::int64_t end) {
  const at::Tensor ends = tokens.eq(end).to(at::kLong);
  // An end belongs to the document that it ends.
  const at::Tensor document = ends.cumsum(1) - ends;
  return document.unsqueeze(2).eq(document.unsqueeze(1)).tril();
}

at::Tensor document_begins(const at::Tensor& tokens, std::int64_t end) {
  const at::Tensor places =
      at::arange(tokens.size(1), tokens.options()).expand_as(tokens);
  // A document begins after the last end before it; the first one at 0.
  const at::Tensor after_end = (places + 1) * tokens.eq(end);
  const at::Tensor begins =
      at::constant_pad_nd(after_end, {1, -1}); // an end belongs to its document
  return std::get<0>(begins.cummax(1));
}

ModelInput pretraining_input(
    const ModelDescription& d,
    const data::TensorBatch& batch,
    const PretrainingOptions& options) {
  switch (d.family) {
    case model::ModelFamily::gpt2:
    case model::ModelFamily::llama:
      return gpt_input(batch, options);
    case model::ModelFamily::bert:
    case model::ModelFamily::roberta:
      return has_field(batch, "text") ? bert_input(d, batch)
                                      : mlm_input(d, batch);
    case model::ModelFamily::t5:
      return t5_input(batch);
  }
  throw InternalError({.what = "a model family without a pretraining loss"});
}

} // namespace cairn::models
