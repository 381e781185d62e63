#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/model/layers.h>
#include <cairn/models/transformer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cairn::models {

using Tensors = std::vector<at::Tensor>;

/// A layer of model::layers_of() that can be computed. Nothing is built
/// before build() is called, so a stage of a pipeline builds its own layers
/// only.
struct ModelLayer : model::Layer {
  std::function<std::shared_ptr<torch::nn::Module>()> build{};
  std::function<Tensors(torch::nn::Module&, const Tensors&)> forward{};
};

/// Which tensors of a ModelInput the micro batches bring, always.
struct LayerInputs {
  using Fields = std::vector<at::Tensor ModelInput::*>;
  Fields inputs{&ModelInput::tokens}; ///< for the first layer
  Fields labels{&ModelInput::labels}; ///< for the loss
};

/// A model as the list of its layers, with the parameters and results of
/// make_model().
struct LayeredModel {
  /// The first takes the inputs, in their order.
  std::vector<ModelLayer> layers;
  /// Names of the losses that the loss is the sum of.
  std::vector<std::string> losses;
  /// From what the last layer returns and the labels, in their order, to the
  /// losses; without labels to the logits.
  std::function<ModelOutput(const Tensors& outputs, const Tensors& labels)>
      output;
};

/// Throws ConfigError for models that cannot be.
LayeredModel model_layers(
    const ModelDescription& description,
    const ModelOptions& options = {},
    const LayerInputs& inputs = {});

/// What a batch brings. Throws DataError for what is missing, or is not for
/// this model.
struct LayerTensors {
  Tensors inputs;
  Tensors labels;
};
LayerTensors layer_tensors(
    const ModelDescription& description,
    const LayerInputs& wanted,
    const ModelInput& input);

} // namespace cairn::models
