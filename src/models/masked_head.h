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

/// The tokens that have a label. They are few, so the head has less to do. To
/// count them on a GPU would stop the host, so as many as
/// ModelInput::most_labels are taken of each row there, or all.
struct Asked {
  at::Tensor hidden;
  at::Tensor labels;
  at::Tensor loss_mask;

  Asked(const at::Tensor& x, const ModelInput& input);

 private:
  void choose(const at::Tensor& places);
  void choose_on_gpu(std::int64_t of_each_row);
};

/// The binary head's input, made from the first token's state.
at::Tensor pooled(const nn::Linear& pooler, const at::Tensor& hidden);

/// Adds the binary head's scores, and their loss if `input` has labels for it.
void add_sentence_output(
    ModelOutput& output,
    at::Tensor logits,
    const ModelInput& input);

} // namespace cairn::models
