#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/pipeline/pipeline_module.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

// Modules without processes: each stage can be made anywhere.

namespace cairn::pipeline::module_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using torch::nn::Linear;

const PartitionMethod uniform{.kind = PartitionMethod::Kind::uniform};

/// Runs in its own process, since libtorch starts threads and other tests fork.
void alone(const std::function<void()>& body) {
  testing::run_ranks({.ranks = 1}, [&](const distributed::World&) { body(); });
}

std::vector<std::string> names_in(const torch::nn::Module& module) {
  return module.named_parameters().keys();
}

template <typename Expected = UsageError>
std::string complaint(
    const std::vector<LayerSpec>& layers,
    const PipelineModuleOptions& options = {}) {
  try {
    PipelineModule module(layers, options);
    module.forward({at::ones({1, 2})});
    return "";
  } catch (const Expected& error) {
    return error.what();
  }
}

TEST(PipelineModule, ParametersHaveTheirNamesInTheWholeModel) {
  alone([] {
    const std::vector<LayerSpec> layers = {
        LayerSpec::of<Linear>(2, 3),
        [](const at::Tensor& x) { return at::relu(x); },
        LayerSpec::of<Linear>(3, 3).named("blocks.0"),
        LayerSpec::of<Linear>(3, 3).named("blocks.1"),
        LayerSpec::of<torch::nn::LinearImpl>(3, 1).named("")};
    const auto stage = [&](int number, int stages) {
      return std::make_shared<PipelineModule>(
          layers,
          PipelineModuleOptions{
              .stage = number,
              .stages = stages,
              .partition = uniform});
    };
    EXPECT_THAT(stage(0, 1)->cuts(), ElementsAre(0, 5));
    EXPECT_THAT(
        names_in(*stage(0, 2)),
        ElementsAre(
            "layers.0.weight",
            "layers.0.bias",
            "blocks.0.weight",
            "blocks.0.bias"));
    EXPECT_THAT(
        names_in(*stage(1, 2)),
        ElementsAre("weight", "bias", "blocks.1.weight", "blocks.1.bias"));

    // A layer starts from the same values on any stage.
    const auto whole = stage(0, 1)->named_parameters();
    for (int s = 0; s < 3; ++s) {
      for (const auto& each : stage(s, 3)->named_parameters()) {
        EXPECT_TRUE(each.value().equal(whole[each.key()])) << each.key();
      }
    }
    torch::manual_seed(5);
    const at::Tensor other = stage(0, 1)->named_parameters()["weight"];
    EXPECT_FALSE(other.equal(whole["weight"]));
    // The random numbers of others do not change.
    torch::manual_seed(6);
    const at::Tensor expected = at::rand({3});
    torch::manual_seed(6);
    stage(1, 3);
    EXPECT_TRUE(at::rand({3}).equal(expected));
  });
}

TEST(PipelineModule, ChunksShareOutTheLayersInTurns) {
  alone([] {
    const auto middle = [] { return Linear(2, 2); };
    const std::vector<LayerSpec> layers = {
        LayerSpec::of<Linear>(2, 2),
        LayerSpec::tied("middle", middle),
        LayerSpec::tied("middle", middle),
        LayerSpec::of<Linear>(2, 2)};
    const auto stage = [&](int number, int stages, int chunks) {
      return std::make_shared<PipelineModule>(
          layers,
          PipelineModuleOptions{
              .stage = number,
              .stages = stages,
              .chunks = chunks,
              .partition = uniform});
    };
    const auto first = stage(0, 2, 2);
    const auto second = stage(1, 2, 2);
    EXPECT_THAT(first->cuts(), ElementsAre(0, 1, 2, 3, 4));
    EXPECT_TRUE(first->is_first(0));
    EXPECT_FALSE(first->is_first(1));
    EXPECT_TRUE(second->is_last(1));
    EXPECT_FALSE(second->is_last(0));
    // The lower stage owns the layer, under its name of the whole model.
    EXPECT_THAT(
        names_in(*first),
        ElementsAre(
            "layers.0.weight",
            "layers.0.bias",
            "layers.1.weight",
            "layers.1.bias"));
    EXPECT_THAT(
        names_in(*second),
        ElementsAre("layers.3.weight", "layers.3.bias"));
    const auto whole = stage(0, 1, 1);
    for (const auto& part : {first, second}) {
      for (const auto& each : part->named_parameters()) {
        EXPECT_TRUE(each.value().equal(whole->named_parameters()[each.key()]))
            << each.key();
      }
    }
    Tensors x{at::ones({1, 2})};
    const at::Tensor wanted = whole->forward(x)[0];
    for (int chunk = 0; chunk < 2; ++chunk) {
      for (const auto& part : {first, second}) {
        x = part->forward(x, chunk);
      }
    }
    EXPECT_TRUE(x[0].equal(wanted));
    EXPECT_THAT(
        complaint(layers, {.stages = 1, .chunks = 2}),
        HasSubstr("only where there are other stages"));
  });
}

struct Sliced : torch::nn::Module, nn::HoldsSlices {
  Sliced() { register_parameter("weight", at::zeros({2})); }
  at::Tensor forward(const at::Tensor& x) { return x; }
  std::vector<nn::ParameterSlice> parameter_slices() const override {
    return {{"weight", {4}, {2}}};
  }
  std::vector<std::string> partial_gradients() const override {
    return {"weight"};
  }
};

TEST(PipelineModule, TellsWhatItsNamelessLayersHoldInPart) {
  alone([] {
    const PipelineModule module({LayerSpec::of<Sliced>().named("")});
    EXPECT_THAT(
        module.parameter_slices(),
        ElementsAre(nn::ParameterSlice{"weight", {4}, {2}}));
    EXPECT_THAT(module.partial_gradients(), ElementsAre("weight"));
    // A layer with a name is found among the children.
    const PipelineModule named({LayerSpec::of<Sliced>()});
    EXPECT_TRUE(named.parameter_slices().empty());
  });
}

TEST(PipelineModule, BuildsOnlyWhatItNeeds) {
  alone([] {
    std::vector<int> built;
    std::vector<LayerSpec> layers;
    for (int i = 0; i < 4; ++i) {
      layers.push_back(LayerSpec::built_by([&built, i] {
        built.push_back(i);
        return Linear(2, i == 0 ? 9 : 2);
      }));
    }
    PipelineModule second(
        layers,
        {.stage = 1, .stages = 2, .partition = uniform});
    EXPECT_THAT(built, ElementsAre(2, 3));
    built.clear();
    // Counting parameters needs a look at every layer.
    PipelineModule first(layers, {.stage = 0, .stages = 2});
    EXPECT_THAT(first.cuts(), ElementsAre(0, 1, 4));
    EXPECT_THAT(built, ElementsAre(0, 1, 2, 3, 0));
    built.clear();
    for (LayerSpec& layer : layers) {
      layer.parameters = 1;
    }
    PipelineModule told(layers, {.stage = 0, .stages = 2});
    EXPECT_THAT(built, ElementsAre(0, 1));
    EXPECT_THAT(
        PipelineModule(
            layers,
            {.stages = 2,
             .partition = PartitionMethod::parse("type:nn::linear")})
            .cuts(),
        ElementsAre(0, 2, 4));
  });
}

TEST(PipelineModule, LayersTakeAndGiveAnyNumberOfTensors) {
  alone([] {
    PipelineModule module(
        {[](const at::Tensor& x) { return std::tuple(x, x + 1); },
         [](const at::Tensor& x, at::Tensor y) {
           return Tensors{y, x, x * y};
         },
         [](const Tensors& all) { return std::pair(all[0], all[2]); },
         [](at::Tensor x, at::Tensor y) { return x + y; }});
    const Tensors result = module.forward({at::full({1}, 3)});
    ASSERT_EQ(result.size(), 1U);
    EXPECT_EQ(result[0].item<int>(), 4 + 12);
  });
}

TEST(PipelineModule, ComesFromASequential) {
  alone([] {
    torch::nn::Sequential net(
        Linear(2, 4),
        torch::nn::Dropout(0.5),
        Linear(4, 3));
    PipelineModule whole(to_layers(net));
    EXPECT_EQ(names_in(whole), names_in(*net));
    whole.eval();
    const at::Tensor x = at::rand({5, 2});
    EXPECT_TRUE(whole.forward({x})[0].equal(net->forward(x)));
    PipelineModule last(
        to_layers(net),
        {.stage = 1, .stages = 2, .partition = uniform});
    EXPECT_THAT(names_in(last), ElementsAre("2.weight", "2.bias"));
  });
}

TEST(PipelineModule, EvaluationReachesEveryLayer) {
  alone([] {
    PipelineModule module(
        {LayerSpec::of<torch::nn::Dropout>(0.5).named(""),
         torch::nn::Dropout(0.5)});
    module.eval();
    const at::Tensor x = at::rand({100});
    EXPECT_TRUE(module.forward({x})[0].equal(x));
    module.train();
    EXPECT_FALSE(module.forward({x})[0].equal(x));
  });
}

TEST(PipelineModule, TiedLayersAreOneModuleCountedOnce) {
  alone([] {
    const auto words = [] { return torch::nn::Embedding(10, 4); };
    const std::vector<LayerSpec> layers = {
        LayerSpec::tied("words", words).named("words"),
        LayerSpec::of<Linear>(4, 4),
        LayerSpec::of<Linear>(4, 4),
        LayerSpec::tied(
            "words",
            words,
            [](torch::nn::EmbeddingImpl& embedding, const at::Tensor& x) {
              return x.matmul(embedding.weight.t());
            })
            .named("head")};
    PipelineModule whole(layers);
    EXPECT_EQ(whole.parameters().size(), 5U);
    EXPECT_TRUE(whole.ties().empty());
    EXPECT_THAT(
        whole.forward({at::ones({2}, at::kLong)})[0].sizes(),
        ElementsAre(2, 10));
    PipelineModule last(
        layers,
        {.stage = 1, .stages = 2, .partition = uniform});
    EXPECT_THAT(
        names_in(last),
        ElementsAre("layers.2.weight", "layers.2.bias"));
    ASSERT_EQ(last.ties().size(), 1U);
    EXPECT_EQ(last.ties()[0].owner(), 0);
    EXPECT_THAT(last.ties()[0].stages, ElementsAre(0, 1));
    last.to(at::kDouble);
    EXPECT_EQ(
        last.ties()[0].module->parameters()[0].scalar_type(),
        at::kDouble);
  });
}

TEST(PipelineModule, SaysWhatIsWrong) {
  alone([] {
    const auto linear = LayerSpec::of<Linear>(2, 2);
    EXPECT_THAT(
        complaint<ConfigError>({linear}, {.stages = 2}), // set by flags
        HasSubstr("1 layers, 2 stages"));
    EXPECT_THAT(
        complaint({linear}, {.stage = 3, .stages = 2}),
        HasSubstr("3 of 2"));
    EXPECT_THAT(
        complaint({linear.named("a"), linear.named("a")}),
        HasSubstr("layer \"a\""));
    const PipelineModule nested({linear.named("a.b"), linear.named("a")});
    EXPECT_TRUE(nested.named_parameters().contains("a.weight"));
    EXPECT_TRUE(nested.named_parameters().contains("a.b.weight"));
    EXPECT_THAT(
        complaint({linear.named(""), linear.named("")}),
        HasSubstr("name of its own"));
    EXPECT_THAT(
        complaint(
            {[](const at::Tensor& x) {
               return Tensors{x, x};
             },
             linear}),
        HasSubstr("2 tensors"));
    EXPECT_THAT(
        complaint(
            {LayerSpec::tied("k", [] { return Linear(2, 2); }),
             LayerSpec::tied("k", [] { return torch::nn::Dropout(0.1); })}),
        HasSubstr("not of one type"));
    EXPECT_THAT(
        complaint({linear}, {.activation_checkpoint_interval = -1}),
        HasSubstr("-1"));
    EXPECT_THROW(
        PipelineModule({linear}).loss({at::ones({2})}, {}),
        UsageError);
    EXPECT_THAT(
        complaint({linear}, {.loss_parts = {"error"}}),
        HasSubstr("loss_parts"));
    const auto sum = [](const at::Tensor& y) { return std::pair(y.sum(), y); };
    EXPECT_THROW(
        PipelineModule({linear}, {.loss = sum}).loss({at::ones({2})}, {}),
        UsageError);
    EXPECT_THROW(
        PipelineModule({linear}, {.loss = sum, .loss_parts = {"all"}})
            .loss({at::ones({2})}, {}),
        UsageError);
  });
}

} // namespace
} // namespace cairn::pipeline::module_test
