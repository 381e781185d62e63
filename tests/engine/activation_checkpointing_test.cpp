#include "engine/nets.h"
#include "support/run_ranks.h"

#include <cairn/base/error.h>
#include <cairn/engine/initialize.h>
#include <cairn/nn/checkpoint.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <memory>
#include <string>

// The configuration's `activation_checkpointing` in a model's own calls.

namespace cairn::activation_checkpointing_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Checkpointed : torch::nn::Module {
  Checkpointed() {
    in = register_module("in", torch::nn::Linear(8, 16));
    block = register_module("block", testing::Block(16));
    out = register_module("out", torch::nn::Linear(16, 4));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor wide = in(x);
    return out(
        options ? checkpoint(*options, block, wide) : block->forward(wide));
  }
  torch::nn::Linear in{nullptr}, out{nullptr};
  testing::Block block{nullptr};
  std::optional<CheckpointOptions> options;
};

struct Trained {
  at::Tensor weights;
  CheckpointOptions options;
};

enum class Model { plain, checkpointed };

Trained train(
    const distributed::World& world,
    const std::string& section,
    int stage,
    Model model,
    std::optional<distributed::ProcessMesh> mesh = std::nullopt) {
  torch::manual_seed(5);
  auto net = std::make_shared<Checkpointed>();
  auto [engine, optimizer, loader, schedule] = initialize(
      {.model = net,
       .mesh = std::move(mesh),
       .config = R"({"train_micro_batch_size_per_gpu": 2,
           "optimizer": {"type": "Adam"}, "zero_optimization": {
           "stage3_param_persistence_threshold": 0, "stage": )" +
           std::to_string(stage) + "}" + section + "}",
       .world = world,
       .logger = Logger({.least = LogLevel::warning})});
  Trained result;
  if (model == Model::checkpointed) {
    net->options = engine.checkpoint_options();
    result.options = engine.checkpoint_options();
  }
  for (int i = 0; i < 3; ++i) {
    engine.backward(engine(at::arange(64, at::kFloat).view({2, 4, 8})).mean());
    engine.step();
  }
  result.weights = engine.full_parameter("block.up.weight");
  return result;
}

TEST(ActivationCheckpointing, TheKeysReachTheModel) {
  const auto outcomes =
      testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
        const distributed::ProcessMesh mesh(world.group(), {.tensor = 2});
        for (const int stage : {0, 3}) {
          const at::Tensor wanted =
              train(world, "", stage, Model::plain, mesh).weights;
          const Trained got = train(
              world,
              R"(, "activation_checkpointing": {"partition_activations": true,
                  "cpu_checkpointing": true, "number_checkpoints": 1,
                  "contiguous_memory_optimization": true, "profile": true})",
              stage,
              Model::checkpointed,
              mesh);
          EXPECT_TRUE(at::equal(got.weights, wanted)) << stage;
          EXPECT_TRUE(got.options.on_cpu);
          ASSERT_TRUE(got.options.partition_over);
          EXPECT_EQ(got.options.partition_over->size(), 2);
          EXPECT_TRUE(got.options.buffer);
          EXPECT_TRUE(got.options.profile);
        }
      });
  EXPECT_THAT(outcomes[0].log, Not(HasSubstr("activation_checkpointing")));
}

TEST(ActivationCheckpointing, SaysWhatHasNoEffect) {
  const std::string section =
      R"(, "activation_checkpointing": {"partition_activations": true})";
  auto log =
      testing::run_ranks(
          {.ranks = 1},
          [&](const auto& world) { train(world, section, 1, Model::plain); })[0]
          .log;
  EXPECT_THAT(log, HasSubstr("there is one tensor-parallel rank"));
  EXPECT_THAT(log, HasSubstr("but the model does not use it"));
  log =
      testing::run_ranks(
          {.ranks = 1},
          [&](const auto& world) {
            train(
                world,
                R"(, "activation_checkpointing": {"cpu_checkpointing": true})",
                1,
                Model::checkpointed);
            EXPECT_THROW(
                train(
                    world,
                    R"(, "activation_checkpointing": {"number_checkpoints": 2})",
                    1,
                    Model::checkpointed),
                ConfigError);
          })[0]
          .log;
  EXPECT_THAT(log, Not(HasSubstr("activation_checkpointing")));
}

TEST(ActivationCheckpointing, TheEngineCallsIt) {
  testing::run_ranks({.ranks = 1}, [](const distributed::World& world) {
    auto net = std::make_shared<Checkpointed>();
    auto [engine, optimizer, loader, schedule] = initialize(
        {.model = net,
         .config = R"({"train_batch_size": 2, "optimizer": {"type": "Adam"}})",
         .world = world,
         .logger = Logger({.least = LogLevel::error})});
    const at::Tensor x = at::rand({1, 4, 16});
    const at::Tensor got = engine.checkpoint(net->block, x);
    EXPECT_TRUE(at::equal(got, net->block->forward(x)));
    EXPECT_THAT(got.grad_fn()->name(), Not(HasSubstr("Add")));
  });
}

} // namespace
} // namespace cairn::activation_checkpointing_test
