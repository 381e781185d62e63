#pragma once

#include "models/embedding.h"

#include <cairn/nn/vocabulary.h>

#include <memory>

namespace cairn::models {

/// The head's parameters: "weight", unless it is tied, and "bias".
class LanguageHead : public nn::Layer {
 public:
  LanguageHead(const nn::LayerContext& context, const ModelDescription& d);
  const at::Tensor& weight() const { return weight_; }
  const at::Tensor& bias() const { return bias_; }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

/// The head without its weights.
nn::VocabularyHead vocabulary_head(
    const nn::LayerContext& context,
    const ModelDescription& description);

/// The weighted mean of the labels' losses. Where ranks have parts of the
/// sequences, the mean of their results is the mean over all.
at::Tensor mean_loss(
    const at::Tensor& hidden,
    const nn::VocabularyHead& head,
    const at::Tensor& labels,
    const at::Tensor& loss_mask,
    const nn::ContextParallel& sequence = {});

/// Adds the loss and the logits that `input` asks for, from hidden states.
void add_language_output(
    ModelOutput& output,
    const at::Tensor& hidden,
    const nn::VocabularyHead& head,
    const ModelInput& input,
    const nn::ContextParallel& sequence = {});

/// Adds the load-balancing loss to the loss; both may be undefined.
void add_balance_loss(
    ModelOutput& output,
    const ModelDescription& description,
    const at::Tensor& balance_loss);

} // namespace cairn::models
