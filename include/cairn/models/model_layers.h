#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/model/parameters.h>
#include <cairn/models/transformer.h>
#include <cairn/nn/vocabulary.h>

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

/// The tensors of a ModelInput that every micro batch brings.
struct LayerInputs {
  using Fields = std::vector<at::Tensor ModelInput::*>;
  Fields inputs{&ModelInput::tokens}; ///< for the first layer
  Fields labels{&ModelInput::labels}; ///< for the loss
};

/// The last hidden states of a model that scores words, and the head that
/// scores them.
struct WordStates {
  at::Tensor hidden; ///< [batch, sequence, hidden]
  nn::VocabularyHead head;
};

/// A model as the list of its layers, with the parameters and results of
/// make_model().
struct LayeredModel {
  /// Layers in order; the first takes the inputs, in their order.
  std::vector<ModelLayer> layers;
  /// Names of the losses whose sum is the loss.
  std::vector<std::string> losses;
  /// Makes the losses from the last layer's result and the labels, in their
  /// order; without labels it makes the logits.
  std::function<ModelOutput(const Tensors& outputs, const Tensors& labels)>
      output;
  /// Takes the last layer's result, as `output` does, for losses that are
  /// computed otherwise. GPT and Llama.
  std::function<WordStates(const Tensors& outputs)> word_states;
};

/// Lists the layers of a model. Throws ConfigError for an impossible model.
LayeredModel model_layers(
    const ModelDescription& description,
    const ModelOptions& options = {},
    const LayerInputs& inputs = {});

/// The tensors of one batch, in the order of LayerInputs. Throws DataError for
/// a tensor that is missing or does not suit the model.
struct LayerTensors {
  Tensors inputs;
  Tensors labels;
};
LayerTensors layer_tensors(
    const ModelDescription& description,
    const LayerInputs& wanted,
    const ModelInput& input);

} // namespace cairn::models
