#pragma once

#include <cairn/models/transformer.h>
#include <cairn/nn/linear.h>
#include <cairn/nn/mlp.h>
#include <cairn/nn/norm.h>

#include <memory>

namespace cairn::models {

/// Throws ConfigError for heads that do not go together.
void check_masked_heads(const ModelDescription& description);

/// "mlm": a layer of its own before the words' scores, and their bias. Every
/// rank computes it alike, for all tokens.
class MaskedHead : public nn::Layer {
 public:
  MaskedHead(const nn::LayerContext& context, const ModelDescription& d);
  at::Tensor forward(const at::Tensor& x) const;
  const at::Tensor& bias() const { return bias_; }

 private:
  model::ActivationKind activation_;
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

  Asked(const at::Tensor& x, const ModelInput& input);
};

/// What the binary head takes: of the first token's state.
at::Tensor pooled(const nn::Linear& pooler, const at::Tensor& hidden);

/// What `input` wants of the binary head's scores.
void add_sentence_output(
    ModelOutput& output,
    at::Tensor logits,
    const ModelInput& input);

} // namespace cairn::models
