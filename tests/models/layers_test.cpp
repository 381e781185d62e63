#include "models/small_models.h"
#include "support/error_text.h"

#include <cairn/model/description.h>
#include <cairn/models/model_layers.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Models as lists of layers give the results of make_model().

namespace cairn::models::layers_test {
namespace {

using small::all_kinds;
using small::on_one_rank;
using small::some_input;
using small::tiny;
using ::testing::HasSubstr;
using Gradients = std::map<std::string, at::Tensor>;

/// A model as a pipeline of one stage runs it.
struct Layers {
  LayeredModel model;
  std::map<std::string, std::shared_ptr<torch::nn::Module>> tied;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;

  explicit Layers(LayeredModel given) : model(std::move(given)) {
    for (const ModelLayer& layer : model.layers) {
      std::shared_ptr<torch::nn::Module> module;
      if (!layer.tie.empty()) {
        auto& shared = tied[layer.tie];
        shared = shared ? shared : layer.build();
        module = shared;
      } else {
        module = layer.build();
      }
      module->eval();
      modules.push_back(module);
    }
  }
  Tensors outputs(Tensors tensors) const {
    for (std::size_t i = 0; i < modules.size(); ++i) {
      tensors = model.layers[i].forward(*modules[i], tensors);
    }
    return tensors;
  }
  Gradients gradients() const {
    Gradients all;
    for (std::size_t i = 0; i < modules.size(); ++i) {
      for (const auto& each : modules[i]->named_parameters()) {
        all[model.layers[i].name + "." + each.key()] = each.value().grad();
      }
    }
    return all;
  }
};

/// A batch with all tensors that a model can take, and the list of them.
std::pair<ModelInput, LayerInputs> full_input(const ModelDescription& d) {
  using model::ModelFamily;
  ModelInput input = some_input(d);
  LayerInputs fields{.inputs = {&ModelInput::mask, &ModelInput::tokens}};
  input.mask = at::ones({2, 8}, at::kLong);
  input.mask[1][7] = 0;
  if (d.family == ModelFamily::t5) {
    fields.inputs.push_back(&ModelInput::decoder_tokens);
    fields.inputs.push_back(&ModelInput::decoder_mask);
    input.decoder_mask = input.mask;
  } else {
    fields.inputs.push_back(&ModelInput::positions);
    input.positions = at::arange(8, at::kLong).expand({2, 8}).clone();
  }
  if (d.token_types > 1) {
    fields.inputs.push_back(&ModelInput::token_types);
    input.token_types = at::arange(8, at::kLong).remainder(2).expand({2, 8});
  }
  if (d.next_sentence_head) {
    fields.labels.push_back(&ModelInput::next_sentence);
  }
  fields.labels.push_back(&ModelInput::loss_mask);
  input.loss_mask = at::ones({2, 8});
  input.loss_mask[0][3] = 0;
  return {input, fields};
}

void expect_sum_of_layers(const ModelDescription& d) {
  SCOPED_TRACE(model::to_json(d));
  const auto close = [](const at::Tensor& a, const at::Tensor& b) {
    return at::allclose(a, b, 1e-5, 1e-6);
  };
  const auto whole = make_model(d);
  whole->eval();
  auto [input, fields] = full_input(d);
  input.want_logits = true;
  const ModelOutput expected = whole->forward(input);
  expected.loss.backward();
  const Layers layers(model_layers(d, {}, fields));
  const LayerTensors tensors = layer_tensors(d, fields, input);
  const Tensors outputs = layers.outputs(tensors.inputs);
  const ModelOutput output = layers.model.output(outputs, tensors.labels);
  EXPECT_TRUE(close(output.loss, expected.loss));
  ASSERT_EQ(output.losses.size(), expected.losses.size());
  ASSERT_EQ(layers.model.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < output.losses.size(); ++i) {
    EXPECT_EQ(layers.model.losses[i], expected.losses[i].first);
    EXPECT_EQ(output.losses[i].first, expected.losses[i].first);
    EXPECT_TRUE(close(output.losses[i].second, expected.losses[i].second));
  }
  const ModelOutput scores = layers.model.output(outputs, {});
  EXPECT_TRUE(close(scores.logits, expected.logits));
  if (d.next_sentence_head) {
    EXPECT_TRUE(
        close(scores.next_sentence_logits, expected.next_sentence_logits));
  }
  output.loss.backward();
  const Gradients gradients = layers.gradients();
  EXPECT_EQ(gradients.size(), whole->named_parameters().size());
  for (const auto& each : whole->named_parameters()) {
    EXPECT_TRUE(close(gradients.at(each.key()), each.value().grad()))
        << each.key();
  }
  for (std::size_t i = 0; i < layers.modules.size(); ++i) {
    std::int64_t elements = 0;
    for (const at::Tensor& each :
         layers.modules[i]->parameters(/*recurse=*/true)) {
      elements += each.numel();
    }
    EXPECT_EQ(layers.model.layers[i].parameters, elements)
        << layers.model.layers[i].name;
  }
}

TEST(Models, AreTheSumOfTheirLayers) {
  on_one_rank([] {
    for (const ModelDescription& d : all_kinds()) {
      expect_sum_of_layers(d);
    }
    ModelDescription with_bias = model::gpt_description(tiny);
    with_bias.head_bias = true;
    expect_sum_of_layers(with_bias);
    ModelDescription lite = model::gpt_lite_description(61);
    lite.layers = 1;
    expect_sum_of_layers(lite);
    ModelDescription untied = model::bert_description(tiny);
    untied.tied_head = false;
    expect_sum_of_layers(untied);
    untied = small::t5_with_relative_positions();
    untied.tied_head = false;
    untied.decoder_layers = 1;
    expect_sum_of_layers(untied);
  });
}

TEST(Models, LayersDropTokensAndScoreSingleOnes) {
  on_one_rank([] {
    const ModelDescription d = model::gpt_description(tiny);
    ModelOptions options;
    options.dropping_layers = {1};
    const auto whole = make_model(d, options);
    whole->eval();
    ModelInput input = some_input(d);
    input.kept = at::arange(0, 8, 2, at::kLong).expand({1, 2, 4}).clone();
    const Layers dropping(model_layers(
        d,
        options,
        {.inputs = {&ModelInput::tokens, &ModelInput::kept}}));
    EXPECT_TRUE(at::allclose(
        dropping.model
            .output(
                dropping.outputs({input.tokens, input.kept}),
                {input.labels})
            .loss,
        whole->forward(input).loss));
    const ModelInput asked{
        .tokens = input.tokens,
        .logits_at = at::arange(3, 5, at::kLong)};
    const Layers scoring(
        model_layers(d, options, {.labels = {&ModelInput::logits_at}}));
    const at::Tensor logits =
        scoring.model.output(scoring.outputs({asked.tokens}), {asked.logits_at})
            .logits;
    EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{2, 1, 61}));
    EXPECT_TRUE(at::allclose(logits, whole->forward(asked).logits));
  });
}

TEST(Models, LayersSayWhatTheyTake) {
  on_one_rank([] {
    const ModelDescription t5 = model::t5_description(tiny);
    EXPECT_THAT(
        error_text<UsageError>([&] { model_layers(t5); }),
        HasSubstr("T5's layers need tokens and a decoder's tokens"));
    EXPECT_THAT(
        error_text<DataError>([&] {
          layer_tensors(
              t5,
              {.inputs = {&ModelInput::tokens, &ModelInput::decoder_mask}},
              some_input(t5));
        }),
        HasSubstr("a batch without something"));
    ModelInput beyond = some_input(t5);
    beyond.decoder_tokens[0][0] = 61;
    EXPECT_THAT(
        error_text<DataError>([&] { layer_tensors(t5, {}, beyond); }),
        HasSubstr("the decoder's tokens out of range"));
  });
}

TEST(RoBerta, CountsPositionsWithoutPadding) {
  on_one_rank([] {
    ModelDescription roberta = model::roberta_small_description();
    roberta.layers = 1;
    const auto model = make_model(roberta);
    model->eval();
    at::Tensor tokens = at::full({1, 6}, 7, at::kLong);
    tokens[0][2] = tokens[0][5] = *roberta.pad_token;
    at::Tensor positions = at::full({1, 6}, -1, at::kLong); // of padding
    for (const auto& [token, position] :
         {std::pair{0, 0}, {1, 1}, {3, 2}, {4, 3}}) {
      positions[0][token] = position;
    }
    const at::Tensor logits = model->forward({.tokens = tokens}).logits;
    EXPECT_TRUE(at::equal(
        logits,
        model->forward({.tokens = tokens, .positions = positions}).logits));
    const Layers counting(model_layers(roberta));
    EXPECT_TRUE(at::allclose(
        counting.model.output(counting.outputs({tokens}), {}).logits,
        logits,
        1e-5,
        1e-6));
    const Layers told(model_layers(
        roberta,
        {},
        {.inputs = {&ModelInput::positions, &ModelInput::tokens}}));
    EXPECT_TRUE(at::allclose(
        told.model.output(told.outputs({positions, tokens}), {}).logits,
        logits,
        1e-5,
        1e-6));
  });
}

} // namespace
} // namespace cairn::models::layers_test
