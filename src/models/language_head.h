#pragma once

#include "models/embedding.h"

#include <cairn/nn/linear_cross_entropy.h>

#include <memory>

namespace cairn::models {

/// Parameters "weight", unless the embedding's serve, and "bias".
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

/// Mean over what is asked: the sum, divided by the sum of what each counts.
/// Where ranks have parts of the sequences, the mean of what they get is that
/// of all.
at::Tensor mean_loss(
    const at::Tensor& hidden,
    const nn::VocabularyHead& head,
    const at::Tensor& labels,
    const at::Tensor& loss_mask,
    const nn::ContextParallel& sequence = {});

/// What `input` wants of a model whose hidden states these are.
void add_language_output(
    ModelOutput& output,
    const at::Tensor& hidden,
    const nn::VocabularyHead& head,
    const ModelInput& input,
    const nn::ContextParallel& sequence = {});

/// Adds the load-balancing loss to one that is there; it may be undefined.
void add_balance_loss(
    ModelOutput& output,
    const ModelDescription& description,
    const at::Tensor& balance_loss);

} // namespace cairn::models
