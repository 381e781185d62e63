#include "models/attention_mask.h"
#include "models/check_input.h"
#include "models/families.h"
#include "models/language_head.h"
#include "models/masked_head.h"
#include "models/stack.h"
#include "models/text_positions.h"

#include <cairn/nn/tensor_parallel.h>

namespace cairn::models {
namespace {

at::Tensor positions_of(const ModelInput& input, const ModelDescription& d) {
  return !input.positions.defined() && counts_text(d)
      ? text_positions(input.tokens, d)
      : input.positions;
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
    x = stack_.forward(x, {.mask = attention_mask(input.mask, false)}).hidden;
    if (split_tokens_) {
      x = nn::gather_tokens(x, group_);
    }
    ModelOutput output;
    if (masked_) {
      add_words(output, x, input);
    }
    if (next_sentence_) {
      add_sentence_output(
          output,
          next_sentence_->forward(pooled(*pooler_, x)),
          input);
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
  check_masked_heads(d);
  return std::make_shared<MaskedModel>(d, options);
}

} // namespace cairn::models
