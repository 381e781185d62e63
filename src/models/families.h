#pragma once

#include "models/language_head.h"
#include "models/layer_builder.h"

#include <functional>
#include <vector>

namespace cairn::models {

/// A model as its list of layers, before anything is built.
struct ModelParts {
  std::vector<StreamLayer> layers;
  /// Makes the output from the stream after the last layer: losses if it has
  /// labels, logits if they are wanted.
  std::function<ModelOutput(const Stream&)> output;
  /// The head, with the weights that the stream brings.
  std::function<nn::VocabularyHead(const Stream&)> head;
};

/// The parts of the description's model. `inputs`: fields of every batch.
ModelParts model_parts(
    const ModelDescription& description,
    const ModelOptions& options,
    const Fields& inputs);

// Each family of models has a file: its layers and its output. `head` has its
// weights already.

/// GPT and Llama.
void add_gpt_layers(LayerBuilder& builder, const ModelDescription& description);
ModelOutput gpt_output(
    const ModelDescription& description,
    const nn::VocabularyHead& head,
    const Stream& stream,
    const nn::ContextParallel& sequence);

/// BERT and RoBERTa.
void add_bert_layers(
    LayerBuilder& builder,
    const ModelDescription& description);
ModelOutput bert_output(
    const ModelDescription& description,
    nn::VocabularyHead head,
    const Stream& stream);

/// T5.
void add_t5_layers(LayerBuilder& builder, const ModelDescription& description);
ModelOutput t5_output(
    const ModelDescription& description,
    const nn::VocabularyHead& head,
    const Stream& stream);

} // namespace cairn::models
