#include <cairn/models/model_layers.h>

#include "models/check_input.h"
#include "models/families.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <utility>

namespace cairn::models {
namespace {

using model::ModelKind;

bool has(const LayerInputs::Fields& fields, at::Tensor ModelInput::*field) {
  return std::ranges::find(fields, field) != fields.end();
}

std::vector<std::string> losses_of(
    const ModelDescription& d,
    const LayerInputs& inputs) {
  std::vector<std::string> losses;
  if (has(inputs.labels, &ModelInput::labels) && model::has_word_head(d)) {
    losses.emplace_back("lm loss");
  }
  if (has(inputs.labels, &ModelInput::next_sentence) && d.next_sentence_head) {
    losses.emplace_back("sop loss");
  }
  if (!losses.empty() && has_experts(d)) {
    losses.emplace_back("moe loss");
  }
  return losses;
}

void check_fields(const ModelDescription& d, const LayerInputs& inputs) {
  const bool t5 = kind_of(d.family) == ModelKind::t5;
  if (!has(inputs.inputs, &ModelInput::tokens) ||
      (t5 && !has(inputs.inputs, &ModelInput::decoder_tokens))) {
    throw UsageError(
        {.what = t5 ? "T5's layers need tokens and a decoder's tokens"
                    : "a model's layers need tokens",
         .where = "LayerInputs"});
  }
}

Fields fields_of(const LayerInputs::Fields& fields) {
  return {fields.begin(), fields.end()};
}

void add_layers(LayerBuilder& builder, const ModelDescription& d) {
  switch (kind_of(d.family)) {
    case ModelKind::gpt:
      return add_gpt_layers(builder, d);
    case ModelKind::bert:
      return add_bert_layers(builder, d);
    case ModelKind::t5:
      return add_t5_layers(builder, d);
  }
}

ModelOutput output_of(
    const ModelDescription& d,
    const nn::VocabularyHead& head,
    const Stream& stream,
    const nn::ContextParallel& sequence) {
  switch (kind_of(d.family)) {
    case ModelKind::gpt:
      return gpt_output(d, head, stream, sequence);
    case ModelKind::bert:
      return bert_output(d, head, stream);
    case ModelKind::t5:
      break;
  }
  return t5_output(d, head, stream);
}

} // namespace

ModelParts model_parts(
    const ModelDescription& d,
    const ModelOptions& options,
    const Fields& inputs) {
  model::check(d, "the model");
  LayerBuilder builder(d, options, inputs);
  add_layers(builder, d);
  ModelParts parts{.layers = builder.layers()};
  parts.head = [head = vocabulary_head(layer_context(options), d)](
                   const Stream& stream) {
    nn::VocabularyHead filled = head;
    filled.weight = stream.head_weight;
    filled.bias = stream.head_bias;
    return filled;
  };
  parts.output = [d, head = parts.head, sequence = options.sequence](
                     const Stream& stream) {
    return output_of(d, head(stream), stream, sequence);
  };
  return parts;
}

LayeredModel model_layers(
    const ModelDescription& d,
    const ModelOptions& options,
    const LayerInputs& inputs) {
  check_fields(d, inputs);
  ModelParts parts = model_parts(d, options, fields_of(inputs.inputs));
  LayeredModel model;
  model.losses = losses_of(d, inputs);
  const Fields carried = parts.layers.back().gives;
  model.word_states = [head = std::move(parts.head),
                       carried](const Tensors& outputs) -> WordStates {
    Stream stream;
    read(stream, carried, outputs);
    return {stream.hidden, head(stream)};
  };
  model.output = [output = std::move(parts.output),
                  carried,
                  asked = fields_of(inputs.labels)](
                     const Tensors& outputs,
                     const Tensors& labels) {
    Stream stream;
    read(stream, carried, outputs);
    if (!labels.empty()) {
      read(stream, asked, labels);
    }
    return output(stream);
  };
  for (StreamLayer& layer : parts.layers) {
    model.layers.push_back(pipeline_layer(std::move(layer)));
  }
  return model;
}

LayerTensors layer_tensors(
    const ModelDescription& d,
    const LayerInputs& wanted,
    const ModelInput& input) {
  check_input(input, d);
  const auto tensors = [&](const LayerInputs::Fields& fields) {
    Tensors result;
    for (const auto field : fields) {
      result.push_back(input.*field);
      if (!result.back().defined()) {
        throw DataError(
            {.what = "a batch without something that the model's layers take",
             .remedy = "list in LayerInputs what every batch brings"});
      }
    }
    return result;
  };
  return {tensors(wanted.inputs), tensors(wanted.labels)};
}

} // namespace cairn::models
