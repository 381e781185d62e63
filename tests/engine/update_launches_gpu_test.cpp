#include "engine/gpu_trace.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/engine/initialize.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <string>

// An update is as many launches for many buckets as for few.

namespace cairn::update_launches_test {
namespace {

using nlohmann::json;

struct Deep : torch::nn::Module {
  explicit Deep(int layers) {
    for (int i = 0; i < layers; ++i) {
      stack->push_back(torch::nn::Linear(33, 33));
    }
    register_module("stack", stack);
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *stack) {
      x = at::relu(layer->as<torch::nn::Linear>()->forward(x));
    }
    return x;
  }
  torch::nn::ModuleList stack;
};

/// Kernels of one engine.step(), with a bucket for every layer.
std::size_t launches(
    const distributed::World& world,
    int layers,
    const json& more) {
  json config{
      {"train_micro_batch_size_per_gpu", 4},
      {"gradient_clipping", 1.0},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-3}}}}},
      {"zero_optimization", {{"stage", 1}, {"reduce_bucket_size", 1100}}}};
  config.merge_patch(more);
  auto [engine, optimizer, loader, schedule] = initialize(
      {.model = std::make_shared<Deep>(layers),
       .config = config.dump(),
       .world = world,
       .logger = Logger({.least = LogLevel::error})});
  const at::Tensor input = at::randn({4, 33}, engine.device());
  const auto pass = [&, &engine = engine] {
    engine.backward(engine(input).to(at::kFloat).square().mean());
    at::ones({1}, at::kCUDA).item(); // the GPU is done
  };
  for (int i = 0; i < 2; ++i) {
    pass();
    engine.step();
  }
  pass();
  const auto step = [&, &engine = engine] {
    engine.step();
    at::ones({1}, at::kCUDA).item();
  };
  return testing::traced("update", step).kernels.size();
}

TEST(UpdateLaunches, DoNotGrowWithTheNumberOfBuckets) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [](const distributed::World& world) {
        for (const char* optimizer : {"AdamW", "Lion", "SGD", "Adagrad"}) {
          for (const bool sixteen : {false, true}) {
            SCOPED_TRACE(::testing::Message() << optimizer << " " << sixteen);
            const json more{
                {"optimizer", {{"type", optimizer}}},
                {"bf16", {{"enabled", sixteen}}}};
            const std::size_t few = launches(world, 3, more);
            const std::size_t many = launches(world, 60, more);
            std::cout << optimizer << ": " << many << " kernels\n";
            EXPECT_EQ(many, few);
            EXPECT_LT(many, 12U);
          }
        }
      });
}

} // namespace
} // namespace cairn::update_launches_test
