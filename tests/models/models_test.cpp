#include "models/internal/load_weights.h"
#include "models/internal/token_dropping.h"
#include "models/small_models.h"
#include "models/whole_gradients.h"
#include "support/error_text.h"
#include "support/run_ranks.h"

#include <ATen/autocast_mode.h>
#include <cairn/model/parameters.h>
#include <cairn/model/presets.h>
#include <cairn/models/resnet18.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace cairn::models::models_test {
namespace {

using small::all_kinds;
using small::on_one_rank;
using small::some_input;
using small::some_tokens;
using small::tiny;
using ::testing::HasSubstr;
using Gradients = std::map<std::string, at::Tensor>;

TEST(Models, HaveTheParametersOfTheirDescription) {
  on_one_rank([] {
    for (const ModelDescription& d : all_kinds()) {
      const auto model = make_model(d);
      std::map<std::string, std::vector<std::int64_t>> wanted;
      for (const auto& parameter : model::model_parameters(d)) {
        wanted[parameter.name] = parameter.shape;
      }
      std::map<std::string, std::vector<std::int64_t>> had;
      for (const auto& parameter : model->named_parameters()) {
        had[parameter.key()] = parameter.value().sizes().vec();
      }
      EXPECT_EQ(had, wanted) << model::name_of(d.family);
    }
  });
}

TEST(Models, StartByTheirLaws) {
  on_one_rank([] {
    for (const ModelDescription& d : all_kinds()) {
      const auto model = make_model(d);
      const auto parameters = model->named_parameters();
      const bool smaller_queries = d.position == model::PositionKind::relative;
      for (const auto& parameter : model::model_parameters(d)) {
        if (smaller_queries &&
            parameter.name.find("attention.query") != std::string::npos) {
          continue;
        }
        const nn::InitialWeights start{
            .output_std = model::output_deviation(
                0.02,
                parameter.name.starts_with("decoder.") ? d.decoder_layers
                                                       : d.layers)};
        const at::Tensor expected = at::empty(parameter.shape);
        start.fill(
            expected.view({-1}),
            0,
            parameter.name,
            nn::SlicedShape::all_of(parameter.shape),
            parameter.initial);
        EXPECT_TRUE(at::equal(parameters[parameter.name], expected))
            << parameter.name;
      }
    }
  });
}

/// Dimension along which ranks cut a parameter; -1: they have all of it.
std::int64_t cut_dimension(model::TensorCut cut) {
  switch (cut) {
    case model::TensorCut::whole:
      return -1;
    case model::TensorCut::rows:
    case model::TensorCut::vocabulary:
      return 0;
    case model::TensorCut::columns:
      return 1;
    case model::TensorCut::third:
      return 2;
  }
  return -1;
}

TEST(Models, AreCutAsTheListSays) {
  testing::run_ranks(2, [](const distributed::ProcessGroup& group) {
    for (ModelDescription d : all_kinds()) {
      d.padded_vocabulary = 70;
      const auto shared = make_model(d, {.tensor_group = group});
      const auto parameters = shared->named_parameters();
      std::int64_t held = 0;
      for (const auto& parameter : model::model_parameters(d)) {
        const at::Tensor local = parameters[parameter.name];
        held += local.numel();
        const std::int64_t cut = cut_dimension(parameter.cut);
        for (std::int64_t dim = 0; dim < local.dim(); ++dim) {
          const auto whole = parameter.shape[static_cast<std::size_t>(dim)];
          EXPECT_EQ(local.size(dim) != whole, dim == cut) << parameter.name;
        }
      }
      std::int64_t counted = 0;
      std::set<std::string> ties;
      for (const model::Layer& layer :
           model::layers_of(model::with_padding(d), group.size())) {
        if (layer.tie.empty() || ties.insert(layer.tie).second) {
          counted += layer.parameters;
        }
      }
      EXPECT_EQ(held, counted) << model::name_of(d.family);
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
    ModelDescription d = model::gpt_description(
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
    // Another seed gives other weights.
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
              << model::name_of(d.family) << " " << name
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
    ModelDescription d = model::gpt_description(tiny);
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
    ModelDescription d = model::gpt_description(tiny);
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
      // The ranks agree: replicated values were dropped alike.
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

TEST(TokenDropping, ChoosesBySeedLayerAndSample) {
  const TokenChoice choice{
      .seed = 3,
      .layers = {1, 5},
      .first_sample = 40,
      .batch = 300,
      .sequence = 16,
      .kept = 6};
  const at::Tensor all = chosen_tokens(choice);
  ASSERT_EQ(all.sizes(), (at::IntArrayRef{2, 300, 6}));
  EXPECT_TRUE(all.diff().gt(0).all().item<bool>()); // ascending, none twice
  EXPECT_GE(all.min().item<std::int64_t>(), 0);
  EXPECT_LT(all.max().item<std::int64_t>(), 16);
  // Each token is kept as often as any other: 225 times, give or take 5
  // deviations.
  const at::Tensor times = all.flatten().bincount({}, 16);
  EXPECT_LT((times - 225).abs().max().item<std::int64_t>(), 60);
  EXPECT_FALSE(at::equal(all[0], all[1]));
  TokenChoice part = choice;
  part.layers = {5};
  part.first_sample = 47;
  part.batch = 2;
  EXPECT_TRUE(at::equal(chosen_tokens(part)[0], all[1].narrow(0, 7, 2)));
  part.seed = 4;
  EXPECT_FALSE(at::equal(chosen_tokens(part)[0], all[1].narrow(0, 7, 2)));
}

TEST(TokenDropping, LetsTheOthersPassUnchanged) {
  on_one_rank([] {
    const nn::Block block(
        {},
        {.attention =
             {.hidden = 32,
              .heads = 4,
              .key_value_heads = 4,
              .head_size = 8,
              .rotary = std::make_shared<nn::Rotary>(
                  nn::RotaryOptions{.head_size = 8})},
         .mlp = {.hidden = 32, .ffn = 64}});
    torch::manual_seed(1);
    const at::Tensor x = at::randn({2, 9, 32}).requires_grad_();
    const at::Tensor kept =
        at::tensor({0, 3, 4, 8, 1, 2, 6, 7}, at::kLong).view({2, 4});
    const at::Tensor all = forward_kept(block, x, {}, kept).hidden;
    const at::Tensor chosen =
        kept.unsqueeze(2).eq(at::arange(9)).any(1); // [2, 9]
    EXPECT_TRUE(at::equal(all.index({~chosen}), x.index({~chosen})));
    // The tokens that are left see each other at their old positions.
    const at::Tensor alone = block
                                 .forward(
                                     x.index({chosen}).view({2, 4, 32}),
                                     {.positions = kept, .sequence = 9})
                                 .hidden;
    EXPECT_TRUE(at::equal(all.index({chosen}), alone.flatten(0, 1)));
    // No token sees one behind it, or one that was dropped.
    all[0][4].sum().backward();
    const at::Tensor heard = x.grad()[0].ne(0).any(1);
    EXPECT_TRUE(at::equal(
        heard,
        at::tensor({1, 0, 0, 1, 1, 0, 0, 0, 0}).to(at::kBool)));
    // Keeping all tokens gives the whole sequence, bit for bit.
    EXPECT_TRUE(at::equal(
        forward_kept(block, x, {}, at::arange(9).expand({2, 9})).hidden,
        block.forward(x, {}).hidden));
  });
}

TEST(Models, RefuseWhatCannotWork) {
  testing::run_ranks(3, [](const distributed::ProcessGroup& group) {
    EXPECT_THAT(
        error_text([&] {
          make_model(model::gpt_description(tiny), {.tensor_group = group});
        }),
        HasSubstr("4 over 3 ranks"));
  });
  on_one_rank([] {
    const ModelDescription d = model::gpt_description(tiny);
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
        error_text<DataError>([&] {
          model->forward(
              {.tokens = some_tokens(), .kept = at::arange(9).view({1, 1, 9})});
        }),
        HasSubstr("kept tokens are 64-bit integers"));
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

} // namespace
} // namespace cairn::models::models_test
