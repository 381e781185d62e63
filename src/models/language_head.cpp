#include "models/language_head.h"

#include "models/block_options.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

namespace cairn::models {

LanguageHead::LanguageHead(
    const nn::LayerContext& context,
    const ModelDescription& d) {
  const nn::VocabularyOptions vocabulary = vocabulary_of(d);
  if (!d.tied_head) {
    weight_ = add_parameter(
        context,
        "weight",
        vocabulary.shape(context.group, d.hidden),
        model::InitialLaw::normal);
  }
  if (d.head_bias) {
    bias_ = add_parameter(
        context,
        "bias",
        vocabulary.shape(context.group, std::nullopt),
        model::InitialLaw::zero);
  }
}

nn::VocabularyHead vocabulary_head(
    const nn::LayerContext& context,
    const ModelDescription& d) {
  nn::VocabularyHead head;
  head.part = nn::VocabularyPart::of(
      vocabulary_of(d).shape(context.group, std::nullopt));
  head.vocabulary = d.vocabulary;
  head.group = context.group;
  head.split_tokens = context.splits_tokens();
  return head;
}

at::Tensor mean_loss(
    const at::Tensor& hidden,
    const nn::VocabularyHead& head,
    const at::Tensor& labels,
    const at::Tensor& loss_mask,
    const nn::ContextParallel& sequence) {
  at::Tensor count = labels.ge(0).to(at::kFloat);
  if (loss_mask.defined()) {
    count = count.mul_(loss_mask);
  }
  const at::Tensor asked =
      sequence.group.all_reduce(count.sum(), distributed::ReduceOp::mean)
          .wait();
  // Without labels that count, the loss is 0 rather than not a number.
  return nn::linear_cross_entropy(hidden, head, labels, count) /
      asked.masked_fill(asked == 0, 1);
}

void add_language_output(
    ModelOutput& output,
    const at::Tensor& hidden,
    const nn::VocabularyHead& head,
    const ModelInput& input,
    const nn::ContextParallel& sequence) {
  if (input.labels.defined()) {
    output.loss =
        mean_loss(hidden, head, input.labels, input.loss_mask, sequence);
    output.losses.emplace_back("lm loss", output.loss);
  }
  if (!input.labels.defined() || input.want_logits) {
    output.logits = nn::logits(hidden, head);
  }
}

void add_balance_loss(
    ModelOutput& output,
    const ModelDescription& d,
    const at::Tensor& balance_loss) {
  if (!balance_loss.defined() || !output.loss.defined()) {
    return;
  }
  const at::Tensor weighed = balance_loss.sum() * d.experts->loss_coefficient;
  output.loss = output.loss + weighed;
  output.losses.emplace_back("moe loss", weighed);
}

} // namespace cairn::models
