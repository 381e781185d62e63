#include <cairn/models/model_layers.h>

#include "models/check_input.h"
#include "models/language_head.h"
#include "models/layer_builder.h"
#include "models/masked_head.h"

#include <cairn/base/error.h>
#include <cairn/checkpoint/model_parameters.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace cairn::models {
namespace {

using checkpoints::ModelFamily;

void add_causal_layers(LayerBuilder& builder, const ModelDescription& d) {
  builder.add_embedding(&Stream::tokens);
  builder.add_stack(
      {d.layers, Role::decoder},
      {.drops = {&Stream::mask, &Stream::positions}});
  builder.add_head();
}

void add_masked_layers(LayerBuilder& builder, const ModelDescription& d) {
  check_masked_heads(d);
  builder.add_embedding(&Stream::tokens);
  builder.add_stack(
      {d.layers, Role::encoder},
      {.drops = {&Stream::mask, &Stream::positions}});
  builder.add_masked_heads();
  if (d.masked_head) {
    builder.add_head();
  }
}

void add_encoder_decoder_layers(
    LayerBuilder& builder,
    const ModelDescription& d) {
  builder.add_embedding(&Stream::tokens);
  builder.add_stack(
      {d.layers, Role::encoder},
      {.name = "encoder", .result = &Stream::memory});
  builder.add_embedding(&Stream::decoder_tokens);
  builder.add_stack(
      {d.decoder_layers, Role::crossing_decoder},
      {.name = "decoder",
       .drops = {&Stream::memory, &Stream::mask, &Stream::decoder_mask}});
  builder.add_head();
}

void add_layers(LayerBuilder& builder, const ModelDescription& d) {
  switch (d.family) {
    case ModelFamily::gpt2:
    case ModelFamily::llama:
      return add_causal_layers(builder, d);
    case ModelFamily::bert:
    case ModelFamily::roberta:
      return add_masked_layers(builder, d);
    case ModelFamily::t5:
      return add_encoder_decoder_layers(builder, d);
  }
}

/// Every parameter belongs to the layer whose name is the longest part of its.
void count_parameters(
    std::vector<ModelLayer>& layers,
    const ModelDescription& d) {
  for (const auto& parameter : checkpoints::model_parameters(d)) {
    std::string owner;
    for (const ModelLayer& layer : layers) {
      if (parameter.name.starts_with(layer.name + ".") &&
          layer.name.size() > owner.size()) {
        owner = layer.name;
      }
    }
    std::int64_t elements = 1;
    for (const std::int64_t size : parameter.shape) {
      elements *= size;
    }
    const bool stacked =
        d.experts && parameter.name.find(".experts.") != std::string::npos;
    const std::int64_t used =
        stacked ? std::min(parameter.shape[0], d.experts->top_k) : 1;
    for (ModelLayer& layer : layers) {
      if (layer.name == owner) {
        layer.parameters += elements;
        layer.untouched +=
            stacked ? elements - elements / parameter.shape[0] * used : 0;
      }
    }
  }
}

/// What the last layer and the labels make of a model of words.
ModelOutput language_output(
    const ModelDescription& d,
    const nn::VocabularyHead& head,
    const Stream& stream,
    const nn::ContextParallel& sequence) {
  ModelOutput output;
  add_language_output(
      output,
      d.scaled_output
          ? stream.hidden * (1 / std::sqrt(static_cast<double>(d.hidden)))
          : stream.hidden,
      head,
      stream,
      sequence);
  add_balance_loss(output, d, stream.balance_loss);
  return output;
}

/// … and of one that fills in words.
ModelOutput masked_output(
    const ModelDescription& d,
    nn::VocabularyHead head,
    const Stream& stream) {
  ModelOutput output;
  head.split_tokens = false;
  if (d.masked_head && stream.labels.defined()) {
    const Asked asked(stream.hidden, stream);
    output.loss = mean_loss(asked.hidden, head, asked.labels, asked.loss_mask);
    output.losses.emplace_back("lm loss", output.loss);
  } else if (d.masked_head) {
    output.logits = nn::logits(stream.hidden, head);
  }
  if (d.next_sentence_head) {
    add_sentence_output(output, stream.sentences, stream);
  }
  return output;
}

bool is_masked(const ModelDescription& d) {
  return d.family == ModelFamily::bert || d.family == ModelFamily::roberta;
}

bool has(const LayerInputs::Fields& fields, at::Tensor ModelInput::*field) {
  return std::ranges::find(fields, field) != fields.end();
}

bool has_experts(const ModelDescription& d) {
  for (std::int64_t i = 0; d.experts && i < d.layers; ++i) {
    if (checkpoints::experts_in_layer(d, i) > 0) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> losses_of(
    const ModelDescription& d,
    const LayerInputs& inputs) {
  std::vector<std::string> losses;
  if (has(inputs.labels, &ModelInput::labels) &&
      (d.masked_head || !is_masked(d))) {
    losses.emplace_back("lm loss");
    if (has_experts(d)) {
      losses.emplace_back("moe loss");
    }
  }
  if (has(inputs.labels, &ModelInput::next_sentence) && d.next_sentence_head) {
    losses.emplace_back("sop loss");
  }
  return losses;
}

void check_fields(const ModelDescription& d, const LayerInputs& inputs) {
  const bool t5 = d.family == ModelFamily::t5;
  if (!has(inputs.inputs, &ModelInput::tokens) ||
      (t5 && !has(inputs.inputs, &ModelInput::decoder_tokens))) {
    throw ConfigError(
        {.what = t5 ? "T5's layers need tokens and a decoder's tokens"
                    : "a model's layers need tokens",
         .where = "LayerInputs"});
  }
}

Fields fields_of(const LayerInputs::Fields& fields) {
  return {fields.begin(), fields.end()};
}

} // namespace

LayeredModel model_layers(
    const ModelDescription& d,
    const ModelOptions& options,
    const LayerInputs& inputs) {
  checkpoints::check(d, "the model");
  check_fields(d, inputs);
  LayerBuilder builder(d, options, fields_of(inputs.inputs));
  add_layers(builder, d);
  LayeredModel model{.layers = builder.take()};
  count_parameters(model.layers, d);
  model.losses = losses_of(d, inputs);
  model.output = [d,
                  head = vocabulary_head(layer_context(options), d),
                  sequence = options.sequence,
                  carried = builder.carried(),
                  asked = fields_of(inputs.labels)](
                     const Tensors& outputs,
                     const Tensors& labels) {
    Stream stream;
    read(stream, carried, outputs);
    if (!labels.empty()) {
      read(stream, asked, labels);
    }
    nn::VocabularyHead filled = head;
    filled.weight = stream.head_weight;
    filled.bias = stream.head_bias;
    return is_masked(d) ? masked_output(d, filled, stream)
                        : language_output(d, filled, stream, sequence);
  };
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
