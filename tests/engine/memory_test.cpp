#include "engine/nets.h"
#include "support/run_ranks.h"

#include <cairn/engine/initialize.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <nlohmann/json.hpp>

#include <string>

// The report against the formulas of the ZeRO paper: parameters 2, gradients 2
// (or 4 where they add up in fp32) and K = 12 bytes per parameter, each divided
// by the ranks where the stage partitions it.

namespace cairn {
namespace {

using nlohmann::json;

struct Wide : torch::nn::Module {
  Wide() {
    for (int i = 0; i < 6; ++i) {
      layers->push_back(torch::nn::Linear(128, 128));
    }
    register_module("layers", layers);
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) {
      x = at::tanh(layer->as<torch::nn::Linear>()->forward(x));
    }
    return x;
  }
  torch::nn::ModuleList layers;
};

void check(const distributed::World& world, int stage, const char* type) {
  json config{
      {"train_micro_batch_size_per_gpu", 1},
      {"optimizer", {{"type", "Adam"}}},
      {"zero_optimization",
       {{"stage", stage},
        {"reduce_bucket_size", 20000},
        {"stage3_param_persistence_threshold", 0},
        {"stage3_max_live_parameters", 40000},
        {"stage3_max_reuse_distance", 0}}}};
  const bool bf16 = std::string(type) == "bf16";
  if (std::string(type) != "fp32") {
    config[type]["enabled"] = true;
  }
  auto net = std::make_shared<Wide>();
  auto [engine, optimizer, loader, schedule] = initialize(
      {.model = net,
       .config = config.dump(),
       .world = world,
       .logger = Logger({.least = LogLevel::error})});
  for (int i = 0; i < 2; ++i) {
    engine.backward(engine(at::ones({1, 128})).to(at::kFloat).mean());
    if (i == 0) {
      engine.step();
    }
  }
  const double n = 6 * (128 * 128 + 128);
  const double ranks = world.size();
  const bool full = std::string(type) == "fp32";
  const double parameter_bytes = full ? 4 : 2;
  const double gradient_bytes = full || bf16 ? 4 : 2;
  const double optimizer_bytes = full ? 8 : 12; // fp32 weights are the model's
  const double optimizer_share = stage >= 1 ? ranks : 1;
  const double parameter_share = stage >= 3 ? ranks : 1;
  const MemoryReport report = engine.memory_report();
  SCOPED_TRACE(
      ::testing::Message() << "stage " << stage << ", " << type << ", "
                           << world.size() << " ranks");
  const auto expect_within = [](std::int64_t got, double wanted) {
    EXPECT_NEAR(static_cast<double>(got), wanted, 0.05 * wanted);
  };
  expect_within(report.parameters, n * parameter_bytes / parameter_share);
  expect_within(report.optimizer, n * optimizer_bytes / optimizer_share);
  // And what is on its way just after backward: two buckets at most, with the
  // parts that come back.
  const double part = n * gradient_bytes / (stage >= 2 ? ranks : 1);
  const double wire = ranks == 1 ? 0
                                 : 2 * 20000 * parameter_bytes +
          (stage >= 1 ? n * parameter_bytes / ranks : 0);
  const auto gradients = static_cast<double>(report.gradients);
  EXPECT_LT(gradients, 1.05 * part + wire);
  if (stage < 2 || ranks == 1) { // else some of it is not back yet
    EXPECT_GT(gradients, 0.95 * part);
  }
  engine.step();
  if (stage == 3 && ranks > 1) {
    EXPECT_EQ(engine.memory_report().gathered, 0) << "let go after the step";
  }
}

TEST(Memory, FollowsTheFormula) {
  for (const int ranks : {1, 2, 4}) {
    testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
      for (int stage = 0; stage <= 3; ++stage) {
        for (const char* type : {"fp32", "fp16", "bf16"}) {
          check(world, stage, type);
        }
      }
    });
  }
}

} // namespace
} // namespace cairn
