#include "models/attention_mask.h"
#include "models/check_input.h"
#include "models/families.h"
#include "models/language_head.h"
#include "models/stack.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tanh.h>
#include <cairn/base/error.h>
#include <cairn/nn/tensor_parallel.h>

namespace cairn::models {
namespace {

/// "mlm": a layer of its own before the words' scores, and their bias. Every
/// rank computes it alike, for all tokens.
class MaskedHead : public nn::Layer {
 public:
  MaskedHead(const nn::LayerContext& context, const ModelDescription& d)
      : activation_(activation_of(d)) {
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
        nn::StartValue::zero);
  }
  at::Tensor forward(const at::Tensor& x) const {
    return norm_->forward(nn::activate(dense_->forward(x), activation_));
  }
  const at::Tensor& bias() const { return bias_; }

 private:
  nn::Activation activation_;
  std::shared_ptr<nn::Linear> dense_;
  std::shared_ptr<nn::Norm> norm_;
  at::Tensor bias_;
};

/// Tokens that something is asked of: few, so that the head has less to do.
/// On a GPU choosing them would stop the host, and all are kept.
struct Asked {
  at::Tensor hidden;
  at::Tensor labels;
  at::Tensor loss_mask;

  Asked(const at::Tensor& x, const ModelInput& input)
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
};

/// RoBERTa counts what is no padding, which has a row of its own before the
/// first position's.
at::Tensor positions_of(const ModelInput& input, const ModelDescription& d) {
  if (input.positions.defined() || d.position_offset == 0 || !d.pad_token) {
    return input.positions;
  }
  const at::Tensor text = input.tokens.ne(*d.pad_token).to(at::kLong);
  return text.cumsum(1).mul_(text).sub_(1);
}

/// Fills in words that were masked: an embedding, blocks that look both ways,
/// and heads.
class MaskedModel : public Transformer {
 public:
  MaskedModel(const ModelDescription& d, const ModelOptions& options)
      : MaskedModel(d, options, layer_context(options)) {}

  ModelOutput forward(const ModelInput& input) override {
    check_input(input, description());
    at::Tensor x = embedding_->forward(
        input.tokens,
        {positions_of(input, description()), input.token_types});
    x = stack_.forward(x, {.mask = attention_mask(input.mask, false)});
    if (split_tokens_) {
      x = nn::gather_tokens(x, group_);
    }
    ModelOutput output;
    if (masked_) {
      add_words(output, x, input);
    }
    if (next_sentence_) {
      add_next_sentence(output, x, input);
    }
    return output;
  }

 private:
  MaskedModel(
      const ModelDescription& d,
      const ModelOptions& options,
      const nn::LayerContext& context)
      : Transformer(d),
        group_(context.group),
        split_tokens_(context.splits_tokens()),
        embedding_(register_module(
            "embedding",
            std::make_shared<Embedding>(
                context.in("embedding"),
                d,
                Embedding::Words::own))),
        stack_(*this, context, d, options, {d.layers, Role::encoder}),
        head_(vocabulary_head(context, d)) {
    head_.split_tokens = false;
    if (d.pooler) {
      pooler_ = register_module(
          "pooler",
          std::make_shared<nn::Linear>(
              context.in("pooler"),
              nn::LinearOptions{d.hidden, d.hidden}));
    }
    if (d.masked_head) {
      masked_ = register_module(
          "mlm",
          std::make_shared<MaskedHead>(context.in("mlm"), d));
    }
    if (d.next_sentence_head) {
      next_sentence_ = register_module(
          "next_sentence",
          std::make_shared<nn::Linear>(
              context.in("next_sentence"),
              nn::LinearOptions{d.hidden, 2}));
    }
    own_head_ = make_language_head(context.in("head"), d);
    if (own_head_) {
      register_module("head", own_head_);
    }
  }

  nn::VocabularyHead word_head() const {
    nn::VocabularyHead head =
        head_of(head_, embedding_->word(), own_head_.get());
    head.bias = masked_->bias();
    return head;
  }

  void add_words(
      ModelOutput& output,
      const at::Tensor& x,
      const ModelInput& input) const {
    const nn::VocabularyHead head = word_head();
    if (input.labels.defined()) {
      const Asked asked(x, input);
      output.loss = mean_loss(
          masked_->forward(asked.hidden),
          head,
          asked.labels,
          asked.loss_mask);
      output.losses.emplace_back("lm loss", output.loss);
    }
    if (!input.labels.defined() || input.want_logits) {
      output.logits = nn::logits(masked_->forward(x), head);
    }
  }

  void add_next_sentence(
      ModelOutput& output,
      const at::Tensor& x,
      const ModelInput& input) const {
    const at::Tensor pooled = at::tanh(pooler_->forward(x.select(1, 0)));
    output.next_sentence_logits = next_sentence_->forward(pooled);
    if (input.next_sentence.defined()) {
      const at::Tensor loss = at::cross_entropy_loss(
          output.next_sentence_logits.to(at::kFloat),
          input.next_sentence.reshape({-1}));
      output.losses.emplace_back("sop loss", loss);
      output.loss = output.loss.defined() ? output.loss + loss : loss;
    }
  }

  distributed::ProcessGroup group_;
  bool split_tokens_;
  std::shared_ptr<Embedding> embedding_;
  Stack stack_;
  nn::VocabularyHead head_;
  std::shared_ptr<nn::Linear> pooler_;
  std::shared_ptr<MaskedHead> masked_;
  std::shared_ptr<nn::Linear> next_sentence_;
  std::shared_ptr<LanguageHead> own_head_;
};

} // namespace

std::shared_ptr<Transformer> make_masked_model(
    const ModelDescription& d,
    const ModelOptions& options) {
  if (d.next_sentence_head && !d.pooler) {
    throw ConfigError(
        {.what = "a binary head needs the pooler",
         .where = "next_sentence_head"});
  }
  return std::make_shared<MaskedModel>(d, options);
}

} // namespace cairn::models
