#include "models/masked_head.h"

#include "models/block_options.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tanh.h>
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
  if (!labels.is_cpu()) {
    return;
  }
  const at::Tensor flat = labels.reshape({-1});
  const at::Tensor chosen = flat.ge(0).nonzero().squeeze(1);
  hidden = x.reshape({-1, x.size(-1)}).index_select(0, chosen).unsqueeze(0);
  labels = flat.index_select(0, chosen).unsqueeze(0);
  if (loss_mask.defined()) {
    loss_mask = loss_mask.reshape({-1}).index_select(0, chosen).unsqueeze(0);
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
