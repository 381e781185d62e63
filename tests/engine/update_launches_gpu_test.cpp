#include "engine/gpu_trace.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/engine/initialize.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <string>

// An update is as many launches for many buckets as for few. Messages are
// another matter: at stages 1 and 2 each bucket has a gather of its own, which
// sends the updated weights.

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

/// What one engine.step() has the GPU do.
struct Launches {
  std::size_t kernels = 0;
  std::size_t messages = 0;
};

/// Launches of an update, with a bucket for every layer.
Launches launches(
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
    torch::cuda::synchronize(); // messages have streams of their own
  };
  const auto step = [&, &engine = engine] {
    engine.step();
    torch::cuda::synchronize();
  };
  for (int i = 0; i < 2; ++i) {
    pass();
    step();
  }
  pass();
  if (world.rank() > 0) { // one trace is enough
    step();
    return {};
  }
  const testing::GpuTrace trace = testing::traced("update", step);
  return {trace.kernels.size(), trace.messages.size()};
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
            const std::size_t few = launches(world, 3, more).kernels;
            const std::size_t many = launches(world, 60, more).kernels;
            std::cout << optimizer << ": " << many << " kernels\n";
            EXPECT_EQ(many, few);
            EXPECT_LT(many, 12U);
          }
        }
      });
}

TEST(UpdateLaunches, DoNotGrowWithTheNumberOfBucketsOverNccl) {
  testing::run_ranks(
      testing::ranks_on_one_gpu(2),
      [](const distributed::World& world) {
        for (const int stage : {0, 1, 2}) {
          for (const bool sixteen : {false, true}) {
            SCOPED_TRACE(::testing::Message() << stage << " " << sixteen);
            const json more{
                {"zero_optimization", {{"stage", stage}}},
                {"bf16", {{"enabled", sixteen}}}};
            const Launches few = launches(world, 3, more);
            const Launches many = launches(world, 60, more);
            if (world.rank() > 0) {
              continue;
            }
            std::cout << "stage " << stage << ": " << many.kernels
                      << " kernels and " << many.messages << " messages, "
                      << few.messages << " with few buckets\n";
            EXPECT_EQ(many.kernels, few.kernels);
            EXPECT_GT(few.kernels, 0U);
            EXPECT_LT(many.kernels, 24U);
            if (stage == 0) { // all messages are for the step as a whole
              EXPECT_EQ(many.messages, few.messages);
            }
          }
        }
      });
}

} // namespace
} // namespace cairn::update_launches_test
