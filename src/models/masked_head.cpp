#include "models/masked_head.h"

#include "models/block_options.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <cairn/base/error.h>

#include <utility>

namespace cairn::models {

void check_masked_heads(const ModelDescription& d) {
  if (d.next_sentence_head && !d.pooler) {
    throw ConfigError(
        {.what = "a binary head needs the pooler",
         .where = "next_sentence_head"});
  }
}

MaskedHead::MaskedHead(
    const nn::LayerContext& context,
    const ModelDescription& d)
    : activation_(d.activation) {
  dense_ = register_module(
      "dense",
      std::make_shared<nn::Linear>(
          context.in("dense"),
          nn::LinearOptions{d.hidden, d.hidden}));
  norm_ = register_module(
      "norm",
      std::make_shared<nn::Norm>(
          context.in("norm"),
          d.hidden,
          norm_options(d),
          nn::Gradient::complete));
  bias_ = add_parameter(
      context,
      "bias",
      vocabulary_of(d).shape(context.group, std::nullopt),
      model::InitialLaw::zero);
}

at::Tensor MaskedHead::forward(const at::Tensor& x) const {
  return norm_->forward(nn::activate(dense_->forward(x), activation_));
}

Asked::Asked(const at::Tensor& x, const ModelInput& input)
    : hidden(x), labels(input.labels), loss_mask(input.loss_mask) {
  if (labels.is_cpu()) {
    choose(labels.reshape({-1}).ge(0).nonzero().squeeze(1));
    return;
  }
  // A few sizes only, all of them good for products.
  const std::int64_t some = (input.most_labels + 63) / 64 * 64;
  if (some > 0 && some < labels.size(1)) {
    choose_on_gpu(some);
  }
}

/// Keeps the tokens at these places of the batch, as one row.
void Asked::choose(const at::Tensor& places) {
  const auto chosen = [&](const at::Tensor& x) {
    return x.reshape({-1}).index_select(0, places).unsqueeze(0);
  };
  hidden = hidden.reshape({-1, hidden.size(-1)})
               .index_select(0, places)
               .unsqueeze(0);
  labels = chosen(labels);
  if (loss_mask.defined()) {
    loss_mask = chosen(loss_mask);
  }
}

/// Keeps so many tokens of each row: those with a label, and then first tokens
/// with none, which count nothing.
void Asked::choose_on_gpu(std::int64_t of_each_row) {
  const at::Tensor asked = labels.ge(0);
  const std::int64_t rows = labels.size(0);
  // The slot after the last one takes all tokens without a label.
  const at::Tensor slots = at::where(
      asked,
      asked.cumsum(1) - 1,
      at::full({}, of_each_row, labels.options()));
  const auto spread = [&](const at::Tensor& x, double without) {
    return at::full({rows, of_each_row + 1}, without, x.options())
        .scatter_(1, slots, x)
        .narrow(1, 0, of_each_row);
  };
  const at::Tensor places =
      at::arange(labels.numel(), labels.options()).view_as(labels);
  const at::Tensor chosen = spread(places, 0).reshape({-1});
  hidden = hidden.reshape({-1, hidden.size(-1)})
               .index_select(0, chosen)
               .view({rows, of_each_row, hidden.size(-1)});
  labels = spread(labels, -100);
  if (loss_mask.defined()) {
    loss_mask = spread(loss_mask, 0);
  }
}

at::Tensor pooled(const nn::Linear& pooler, const at::Tensor& hidden) {
  return at::tanh(pooler.forward(hidden.select(1, 0)));
}

void add_sentence_output(
    ModelOutput& output,
    at::Tensor logits,
    const ModelInput& input) {
  output.next_sentence_logits = std::move(logits);
  if (input.next_sentence.defined()) {
    const at::Tensor loss = at::cross_entropy_loss(
        output.next_sentence_logits.to(at::kFloat),
        input.next_sentence.reshape({-1}));
    output.losses.emplace_back("sop loss", loss);
    output.loss = output.loss.defined() ? output.loss + loss : loss;
  }
}

} // namespace cairn::models
