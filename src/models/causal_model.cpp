#include "models/attention_mask.h"
#include "models/check_input.h"
#include "models/families.h"
#include "models/language_head.h"
#include "models/stack.h"

#include <ATen/ops/arange.h>
#include <cairn/base/error.h>

namespace cairn::models {
namespace {

/// Predicts the next token: an embedding, blocks that look back, a head.
class CausalModel : public Transformer {
 public:
  CausalModel(const ModelDescription& d, const ModelOptions& options)
      : CausalModel(d, options, layer_context(options)) {}

  ModelOutput forward(const ModelInput& input) override {
    check_input(input, description());
    if (input.sequence_ranks != sequence_.group.size()) {
      throw DataError(
          {.what = "ranks share every sequence, but the batch is whole",
           .remedy = "give the model own_sequence() of the batch"});
    }
    const at::Tensor x =
        embedding_->forward(input.tokens, {input.positions, input.token_types});
    const nn::Block::Output stacked = stack_.forward(
        x,
        {.mask = attention_mask(input.mask, true),
         .positions = input.positions,
         .kept = input.kept});
    ModelOutput output;
    add_language_output(
        output,
        input.logits_at.defined() ? rows_at(stacked.hidden, input)
                                  : stacked.hidden,
        head_of(head_, embedding_->word(), own_head_.get()),
        input,
        sequence_);
    add_balance_loss(output, description(), stacked.balance_loss);
    return output;
  }

 private:
  CausalModel(
      const ModelDescription& d,
      const ModelOptions& options,
      const nn::LayerContext& context)
      : Transformer(d),
        sequence_(options.sequence),
        splits_tokens_(context.splits_tokens()),
        embedding_(register_module(
            "embedding",
            std::make_shared<Embedding>(
                context.in("embedding"),
                d,
                Embedding::Words::own))),
        stack_(*this, context, d, options, {d.layers, Role::decoder}),
        own_head_(make_language_head(context.in("head"), d)),
        head_(vocabulary_head(context, d)) {
    if (own_head_) {
      register_module("head", own_head_);
    }
  }

  /// The hidden state of each row's token that the input names.
  at::Tensor rows_at(const at::Tensor& hidden, const ModelInput& input) const {
    if (input.labels.defined() || splits_tokens_ || sequence_.is_on()) {
      throw ConfigError(
          {.what = "logits of single tokens, where there are labels or ranks "
                   "share the sequence"});
    }
    const at::Tensor rows =
        at::arange(hidden.size(0), input.logits_at.options());
    return hidden.index({rows, input.logits_at}).unsqueeze(1);
  }

  nn::ContextParallel sequence_;
  bool splits_tokens_;
  std::shared_ptr<Embedding> embedding_;
  Stack stack_;
  std::shared_ptr<LanguageHead> own_head_;
  nn::VocabularyHead head_;
};

} // namespace

std::shared_ptr<Transformer> make_causal_model(
    const ModelDescription& description,
    const ModelOptions& options) {
  return std::make_shared<CausalModel>(description, options);
}

} // namespace cairn::models
