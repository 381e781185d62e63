#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/models/transformer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cairn::models {

using Tensors = std::vector<at::Tensor>;

/// A piece of a model that a pipeline may cut off. Nothing is built before
/// build() is called, so a stage builds its own pieces only.
struct ModelLayer {
  /// What stands before its parameters' names; empty: they have theirs already.
  std::string name;
  /// "embedding", "block", "norm" or "head". Heads pass their weights on and
  /// are not worth computing again: leave them out of activation checkpoints.
  std::string type;
  /// Layers with the same key are one module, on all stages that have it.
  std::string tied_key;
  std::function<std::shared_ptr<torch::nn::Module>()> build;
  std::function<Tensors(torch::nn::Module&, const Tensors&)> forward;
};

/// What a micro batch brings besides tokens, in this order.
struct LayerInputs {
  bool positions = false; ///< ModelInput's
  bool mask = false;
};

/// A left-to-right model as the list of its layers, with the parameters and
/// results of make_model().
struct LayeredModel {
  std::vector<ModelLayer> layers; ///< the first takes {tokens, positions, mask}
  /// From what the last layer returns, {labels} or {labels, loss_mask} to the
  /// loss, and to the logits.
  std::function<at::Tensor(const Tensors& outputs, const Tensors& labels)> loss;
  std::function<at::Tensor(const Tensors& outputs)> logits;
};

/// Throws ConfigError for models that are not left to right.
LayeredModel model_layers(
    const ModelDescription& description,
    const ModelOptions& options = {},
    const LayerInputs& inputs = {});

} // namespace cairn::models
