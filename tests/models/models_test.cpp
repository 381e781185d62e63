#include "models/whole_gradients.h"
#include "support/error_text.h"
#include "support/run_ranks.h"

#include <ATen/autocast_mode.h>
#include <cairn/checkpoint/model_parameters.h>
#include <cairn/models/load_weights.h>
#include <cairn/models/model_layers.h>
#include <cairn/models/presets.h>
#include <cairn/models/pretraining.h>
#include <cairn/models/resnet18.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <functional>
#include <map>
#include <string>

namespace cairn::models::models_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Gradients = std::map<std::string, at::Tensor>;

constexpr ModelSizes tiny{
    .layers = 2,
    .hidden = 32,
    .heads = 4,
    .sequence = 16,
    .vocabulary = 61};

ModelDescription t5_with_relative_positions() {
  ModelDescription d = t5_description(tiny);
  d.position = checkpoints::PositionKind::relative;
  d.relative_buckets = 8;
  d.relative_distance = 20;
  return d;
}

std::vector<ModelDescription> all_kinds() {
  ModelDescription roberta = roberta_small_description();
  roberta.layers = 1;
  roberta.vocabulary = roberta.padded_vocabulary = 61;
  roberta.dropout = roberta.attention_dropout = 0;
  return {
      gpt_description(tiny),
      llama_description(tiny, 2, 48),
      bert_description(tiny),
      bert_description(tiny, BinaryHead::without),
      t5_description(tiny),
      t5_with_relative_positions(),
      roberta};
}

/// The same on every rank.
at::Tensor some_tokens(std::int64_t rows = 2, std::int64_t columns = 8) {
  return at::arange(rows * columns, at::kLong)
      .mul_(17)
      .remainder_(61)
      .view({rows, columns});
}

ModelInput some_input(const ModelDescription& d) {
  ModelInput input{.tokens = some_tokens()};
  input.labels = some_tokens().add(5).remainder_(61);
  if (d.family == checkpoints::ModelFamily::t5) {
    input.decoder_tokens = some_tokens().add(3).remainder_(61);
  }
  if (d.next_sentence_head) {
    input.next_sentence = at::arange(2, at::kLong);
  }
  return input;
}

void on_one_rank(const std::function<void()>& body) {
  testing::run_ranks(1, [&](const auto&) { body(); });
}

TEST(Models, HaveTheParametersOfTheirDescription) {
  on_one_rank([] {
    for (const ModelDescription& d : all_kinds()) {
      const auto model = make_model(d);
      std::map<std::string, std::vector<std::int64_t>> wanted;
      for (const auto& parameter : checkpoints::model_parameters(d)) {
        wanted[parameter.name] = parameter.shape;
      }
      std::map<std::string, std::vector<std::int64_t>> had;
      for (const auto& parameter : model->named_parameters()) {
        had[parameter.key()] = parameter.value().sizes().vec();
      }
      EXPECT_EQ(had, wanted) << checkpoints::name_of(d.family);
    }
  });
}

TEST(Models, StartAlikeHoweverTheyAreShared) {
  testing::run_ranks(4, [](const distributed::ProcessGroup& world) {
    const auto group = world.split(world.rank() % 2);
    for (ModelDescription d : all_kinds()) {
      const auto whole = make_model(d);
      d.padded_vocabulary = 70;
      const auto shared = make_model(d, {.tensor_group = group});
      const auto expected = whole->named_parameters();
      std::map<std::string, nn::ParameterSlice> slices;
      for (const auto& slice : nn::parameter_slices(*shared)) {
        slices[slice.name] = slice;
      }
      for (const auto& each : shared->named_parameters()) {
        const auto found = slices.find(each.key());
        const at::Tensor all = found == slices.end()
            ? each.value().detach()
            : testing::joined(each.value().detach(), found->second, group);
        EXPECT_TRUE(at::equal(all, expected[each.key()])) << each.key();
      }
      const at::Tensor words =
          shared->named_parameters()["embedding.word.weight"];
      if (group.rank() == 1) { // rows 35 to 69 of 61
        EXPECT_EQ(words.narrow(0, 26, 9).abs().sum().item<float>(), 0);
        EXPECT_GT(words.narrow(0, 25, 1).abs().sum().item<float>(), 0);
      }
    }
  });
}

TEST(Models, StartFromMegatronsSpread) {
  on_one_rank([] {
    ModelDescription d = gpt_description(
        {.layers = 8,
         .hidden = 64,
         .heads = 4,
         .sequence = 16,
         .vocabulary = 1000});
    const auto model = make_model(d, {.initial_std = 0.1});
    const auto parameters = model->named_parameters();
    const auto spread = [&](const char* name) {
      return parameters[name].std().item<double>();
    };
    EXPECT_NEAR(spread("embedding.word.weight"), 0.1, 0.002);
    EXPECT_NEAR(spread("layers.0.mlp.up.weight"), 0.1, 0.002);
    EXPECT_NEAR(spread("layers.7.mlp.down.weight"), 0.1 / 4, 0.001);
    EXPECT_NEAR(spread("layers.3.attention.dense.weight"), 0.1 / 4, 0.001);
    EXPECT_EQ(spread("layers.3.attention.dense.bias"), 0);
    EXPECT_EQ(parameters["final_norm.weight"].mean().item<double>(), 1);
    EXPECT_FALSE(at::equal(
        parameters["layers.0.mlp.up.weight"],
        parameters["layers.1.mlp.up.weight"]));
    // Another seed, other weights.
    EXPECT_FALSE(at::equal(
        make_model(d, {.seed = 5})->named_parameters()["embedding.word.weight"],
        parameters["embedding.word.weight"]));
  });
}

TEST(Models, GiveTheSameSharedOrNot) {
  testing::run_ranks(2, [](const distributed::ProcessGroup& group) {
    for (ModelDescription d : all_kinds()) {
      const auto alone = make_model(d);
      const ModelInput input = some_input(d);
      const at::Tensor loss = alone->forward(input).loss;
      loss.backward();
      const Gradients expected = testing::whole_gradients(*alone, {});
      d.padded_vocabulary = 67;
      for (const bool sequence : {false, true}) {
        const auto shared = make_model(
            d,
            {.tensor_group = group, .sequence_parallel = sequence});
        const at::Tensor same = shared->forward(input).loss;
        EXPECT_NEAR(same.item<double>(), loss.item<double>(), 2e-6);
        same.backward();
        for (const auto& [name, gradient] :
             testing::whole_gradients(*shared, group)) {
          EXPECT_TRUE(at::allclose(gradient, expected.at(name), 1e-4, 1e-6))
              << checkpoints::name_of(d.family) << " " << name
              << (sequence ? " with" : " without") << " sequence parallelism";
        }
      }
    }
  });
}

TEST(Models, ComputeInSixteenBits) {
  testing::run_ranks(2, [](const distributed::ProcessGroup& group) {
    for (const ModelDescription& d : all_kinds()) {
      const ModelInput input = some_input(d);
      const double exact = make_model(d)->forward(input).loss.item<double>();
      for (const bool autocast : {false, true}) {
        const auto model = make_model(
            d,
            {.tensor_group = group,
             .sequence_parallel = true,
             .dtype = autocast ? at::kFloat : at::kBFloat16});
        at::autocast::set_autocast_enabled(at::kCPU, autocast);
        const at::Tensor loss = model->forward(input).loss;
        at::autocast::clear_cache();
        at::autocast::set_autocast_enabled(at::kCPU, false);
        EXPECT_EQ(loss.scalar_type(), at::kFloat);
        EXPECT_NEAR(loss.item<double>(), exact, 0.02);
        loss.backward();
        for (const auto& each : model->named_parameters()) {
          const at::Tensor& gradient = each.value().grad();
          EXPECT_EQ(gradient.scalar_type(), each.value().scalar_type());
          EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << each.key();
        }
      }
    }
  });
}

TEST(Models, LoseNothingWhenComputedAgain) {
  on_one_rank([] {
    ModelDescription d = gpt_description(tiny);
    d.dropout = d.attention_dropout = 0.2;
    const auto gradients = [&](const ModelOptions& options) {
      const auto model = make_model(d, options);
      torch::manual_seed(3);
      model->forward(some_input(d)).loss.backward();
      return testing::whole_gradients(*model, {});
    };
    ModelOptions again;
    again.recompute.emplace();
    again.recompute_layers = 2;
    const Gradients kept = gradients({});
    for (const auto& [name, gradient] : gradients(again)) {
      EXPECT_TRUE(at::equal(gradient, kept.at(name))) << name;
    }
  });
}

TEST(Models, DropOnlyWhileTraining) {
  testing::run_ranks(2, [](const distributed::ProcessGroup& group) {
    ModelDescription d = gpt_description(tiny);
    d.dropout = d.attention_dropout = 0.5;
    const ModelInput input = some_input(d);
    for (const bool sequence : {false, true}) {
      const auto model =
          make_model(d, {.tensor_group = group, .sequence_parallel = sequence});
      torch::manual_seed(3);
      const double first = model->forward(input).loss.item<double>();
      const double second = model->forward(input).loss.item<double>();
      EXPECT_NE(first, second);
      torch::manual_seed(3);
      EXPECT_EQ(model->forward(input).loss.item<double>(), first);
      // Ranks agree: what is replicated was dropped alike.
      at::Tensor losses = at::tensor({first, second}, at::kDouble);
      const at::Tensor all = group.all_gather(losses).wait().view({2, 2});
      EXPECT_TRUE(at::equal(all[0], all[1]));
      model->eval();
      EXPECT_EQ(
          model->forward(input).loss.item<double>(),
          model->forward(input).loss.item<double>());
    }
  });
}

/// As a pipeline of one stage runs it.
struct Layers {
  LayeredModel model;
  std::map<std::string, std::shared_ptr<torch::nn::Module>> tied;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;

  explicit Layers(LayeredModel given) : model(std::move(given)) {
    for (const ModelLayer& layer : model.layers) {
      std::shared_ptr<torch::nn::Module> module;
      if (!layer.tied_key.empty()) {
        auto& shared = tied[layer.tied_key];
        shared = shared ? shared : layer.build();
        module = shared;
      } else {
        module = layer.build();
      }
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

/// A batch with all that a model can take, and the list of it.
std::pair<ModelInput, LayerInputs> full_input(const ModelDescription& d) {
  using checkpoints::ModelFamily;
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
  SCOPED_TRACE(checkpoints::to_json(d));
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
  for (const auto& module : layers.modules) {
    module->eval();
  }
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
    ModelDescription with_bias = gpt_description(tiny);
    with_bias.head_bias = true;
    expect_sum_of_layers(with_bias);
    ModelDescription lite = gpt_lite_description(61);
    lite.layers = 1;
    expect_sum_of_layers(lite);
    ModelDescription untied = bert_description(tiny);
    untied.tied_head = false;
    expect_sum_of_layers(untied);
    untied = t5_with_relative_positions();
    untied.tied_head = false;
    untied.decoder_layers = 1;
    expect_sum_of_layers(untied);
  });
}

TEST(Models, LayersSayWhatTheyTake) {
  on_one_rank([] {
    const ModelDescription t5 = t5_description(tiny);
    EXPECT_THAT(
        error_text([&] { model_layers(t5); }),
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

data::TensorBatch batch_of(
    std::vector<std::pair<std::string, at::Tensor>> tensors) {
  data::TensorBatch batch;
  batch.tensors = std::move(tensors);
  return batch;
}

TEST(Pretraining, TakesAGptBatch) {
  on_one_rank([] {
    const ModelDescription d = gpt_description(tiny);
    const at::Tensor tokens = some_tokens(1, 8);
    at::Tensor loss_mask = at::zeros({1, 8});
    loss_mask[0][6] = 1;
    const auto batch = batch_of(
        {{"tokens", tokens},
         {"labels", some_tokens(1, 8) + 1},
         {"loss_mask", loss_mask},
         {"position_ids", at::arange(8, at::kLong).view({1, 8})}});
    const auto model = make_model(d);
    const ModelInput input = pretraining_input(d, batch);
    const double loss = model->forward(input).loss.item<double>();
    const at::Tensor logits = model->forward({.tokens = tokens}).logits;
    const at::Tensor score = at::log_softmax(logits[0][6], 0);
    EXPECT_NEAR(
        loss,
        -score[input.labels[0][6].item<std::int64_t>()].item<double>(),
        1e-6);
    // Nothing asked: no loss, and a gradient that is a number.
    ModelInput silent = input;
    silent.loss_mask = at::zeros({1, 8});
    EXPECT_EQ(model->forward(silent).loss.item<double>(), 0);
  });
}

TEST(Pretraining, KeepsDocumentsApart) {
  on_one_rank([] {
    const at::Tensor tokens = at::tensor({7, 9, 60, 7, 9, 3}, at::kLong);
    const at::Tensor mask = document_mask(tokens.unsqueeze(0), 60)[0];
    const auto row = [&](std::int64_t i) {
      const at::Tensor each = mask[i].to(at::kInt);
      return std::vector<int>(
          each.const_data_ptr<int>(),
          each.const_data_ptr<int>() + 6);
    };
    EXPECT_THAT(row(2), ElementsAre(1, 1, 1, 0, 0, 0));
    EXPECT_THAT(row(4), ElementsAre(0, 0, 0, 1, 1, 0));

    const ModelDescription d = gpt_description(tiny);
    const auto model = make_model(d);
    const at::Tensor positions =
        at::tensor({0, 1, 2, 0, 1, 2}, at::kLong).unsqueeze(0);
    const auto batch = batch_of(
        {{"tokens", tokens.unsqueeze(0)},
         {"labels", tokens.unsqueeze(0)},
         {"loss_mask", at::ones({1, 6})},
         {"position_ids", positions}});
    ModelInput input =
        pretraining_input(d, batch, {.reset_attention_after = 60});
    input.labels.reset();
    input.loss_mask.reset();
    const at::Tensor logits = model->forward(input).logits[0];
    EXPECT_TRUE(at::allclose(logits[1], logits[4], 1e-5, 1e-6));
  });
}

TEST(Pretraining, TakesBatchesOfTheOthers) {
  on_one_rank([] {
    at::Tensor labels = at::full({2, 8}, -1, at::kLong);
    labels[0][2] = 5;
    labels[1][4] = 6;
    const at::Tensor ones = at::ones({2, 8}, at::kLong);
    const at::Tensor asked = labels.ge(0).to(at::kLong);
    const auto bert = batch_of(
        {{"text", some_tokens()},
         {"types", ones},
         {"labels", labels},
         {"is_random", at::ones({2, 1}, at::kLong)},
         {"padding_mask", ones},
         {"loss_mask", asked},
         {"truncated", at::zeros({2, 1}, at::kLong)}});
    for (const BinaryHead head : {BinaryHead::with, BinaryHead::without}) {
      const ModelDescription d = bert_description(tiny, head);
      const ModelOutput output =
          make_model(d)->forward(pretraining_input(d, bert));
      ASSERT_EQ(output.losses.size(), head == BinaryHead::with ? 2 : 1);
      EXPECT_EQ(output.losses[0].first, "lm loss");
      EXPECT_NEAR(output.losses[0].second.item<double>(), std::log(61), 0.2);
      if (head == BinaryHead::with) {
        EXPECT_EQ(output.losses[1].first, "sop loss");
        EXPECT_NEAR(output.losses[1].second.item<double>(), std::log(2), 0.2);
      }
    }
    const auto t5 = batch_of(
        {{"text_enc", some_tokens()},
         {"text_dec", some_tokens().narrow(1, 0, 6)},
         {"labels", labels.narrow(1, 0, 6)},
         {"loss_mask", asked.narrow(1, 0, 6)},
         {"enc_mask", ones},
         {"dec_mask", ones.narrow(1, 0, 6)}});
    for (const ModelDescription& d :
         {t5_description(tiny), t5_with_relative_positions()}) {
      EXPECT_NEAR(
          make_model(d)->forward(pretraining_input(d, t5)).loss.item<double>(),
          std::log(61),
          0.2);
    }
    ModelDescription roberta = roberta_small_description();
    roberta.layers = 1;
    at::Tensor to_fill = at::full({2, 8}, 1, at::kLong);
    to_fill[0][2] = 5;
    const auto mlm = batch_of(
        {{"tokens", some_tokens()},
         {"labels", to_fill},
         {"attention_mask", ones}});
    const auto model = make_model(roberta);
    EXPECT_NEAR(
        model->forward(pretraining_input(roberta, mlm)).loss.item<double>(),
        std::log(50265),
        0.5);
  });
}

TEST(Models, RefuseWhatCannotWork) {
  testing::run_ranks(3, [](const distributed::ProcessGroup& group) {
    EXPECT_THAT(
        error_text([&] {
          make_model(gpt_description(tiny), {.tensor_group = group});
        }),
        HasSubstr("4 over 3 ranks"));
  });
  on_one_rank([] {
    const ModelDescription d = gpt_description(tiny);
    const auto model = make_model(d);
    EXPECT_THAT(
        error_text<DataError>(
            [&] { model->forward({.tokens = some_tokens() + 60}); }),
        HasSubstr("tokens out of range"));
    EXPECT_THAT(
        error_text<DataError>([&] {
          model->forward(
              {.tokens = some_tokens(), .labels = some_tokens() + 60});
        }),
        HasSubstr("labels out of range"));
    EXPECT_THAT(
        error_text([&] { model->forward({.tokens = some_tokens(1, 17)}); }),
        HasSubstr("17 tokens, 16 positions"));
    EXPECT_THAT(
        error_text<DataError>([&] {
          model->forward({.tokens = some_tokens(), .labels = some_tokens(1)});
        }),
        HasSubstr("not shaped as the tokens"));
    EXPECT_THAT(
        error_text<CheckpointError>([&] { load_weights(*model, d, {}); }),
        HasSubstr("no tensor for a parameter"));
    const checkpoints::LazyTensor one{at::kFloat, {1}, [] {
                                        return at::ones({1});
                                      }};
    EXPECT_THAT(
        error_text<CheckpointError>([&] {
          load_weights(*model, d, {{"nobody.knows", one}});
        }),
        HasSubstr("nobody.knows"));
    EXPECT_THAT(
        error_text<CheckpointError>([&] {
          load_weights(*model, d, {{"embedding.word.weight", one}});
        }),
        HasSubstr("another shape"));
  });
}

TEST(Models, ResNetTellsClasses) {
  on_one_rank([] {
    ResNet18 net(10, 4);
    EXPECT_EQ(
        net(at::rand({2, 3, 32, 32})).sizes(),
        (std::vector<std::int64_t>{2, 10}));
  });
}

TEST(RoBerta, CountsPositionsWithoutPadding) {
  testing::run_ranks(1, [](const auto&) {
    ModelDescription roberta = roberta_small_description();
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
    EXPECT_TRUE(at::equal(
        model->forward({.tokens = tokens}).logits,
        model->forward({.tokens = tokens, .positions = positions}).logits));
  });
}

} // namespace
} // namespace cairn::models::models_test
