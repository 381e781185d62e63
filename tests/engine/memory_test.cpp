#include "engine/nets.h"
#include "nn/counting_allocator.h"
#include "support/run_ranks.h"

#include <cairn/base/error.h>
#include <cairn/engine/initialize.h>
#include <cairn/engine/states_estimate.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <torch/nn/modules/container/sequential.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <string>

// The report against the formulas of the ZeRO paper: parameters 2, gradients 2
// (or 4 where they add up in fp32) and K = 12 bytes per parameter, each divided
// by the ranks where the stage partitions it; and against the allocator's
// count.

namespace cairn::memory_test {
namespace {

using nlohmann::json;

struct Wide : testing::TanhStack {
  explicit Wide(std::int64_t width = 128) : TanhStack(6, width) {}
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
  const StatesEstimate planned = estimate_states(
      *net,
      config::Config::load({.json = config.dump(), .world_size = world.size()}),
      /*on_gpu=*/false);
  expect_within(planned.parameters, n * parameter_bytes / parameter_share);
  expect_within(
      planned.gradients,
      n * gradient_bytes / (stage >= 2 ? ranks : 1));
  expect_within(planned.optimizer, n * optimizer_bytes / optimizer_share);
  expect_within(planned.buckets, ranks == 1 ? 0 : 20000 * parameter_bytes);
  // Buffers are under way just after backward: two buckets at most, with the
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

TEST(Memory, NoEstimateForRanksThatCannotDivideTheModel) {
  const Wide net;
  config::Config config =
      config::Config::load({.json = R"({"train_micro_batch_size_per_gpu": 1,
                   "zero_optimization": {"stage": 1}})"});
  config.flags.distributed.expert_parallel = 2;
  for (const std::int64_t ranks : {1LL, 3LL, 1LL << 32}) {
    config.world_size = ranks;
    EXPECT_THROW(estimate_states(net, config, false), UsageError) << ranks;
  }
}

json small_buckets(int stage, std::int64_t bucket) {
  return {
      {"train_micro_batch_size_per_gpu", 1},
      {"optimizer", {{"type", "Adam"}}},
      {"zero_optimization",
       {{"stage", stage},
        {"reduce_bucket_size", bucket},
        {"stage3_param_persistence_threshold", 0},
        {"stage3_max_live_parameters", 2 * bucket},
        {"stage3_max_reuse_distance", 0}}}};
}

/// Bytes that malloc has handed out.
std::int64_t malloc_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

/// Lets the math library take the buffers that it keeps.
void warm_up(std::int64_t width, at::ScalarType type) {
  Wide net(width);
  net.to(type);
  net.forward(at::ones({1, width}, type)).to(at::kFloat).mean().backward();
}

/// Looks at the memory between its layers.
struct Watched : Wide {
  using Wide::Wide;
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) {
      x = at::tanh(layer->as<torch::nn::Linear>()->forward(x));
      look();
    }
    return x;
  }
  std::function<void()> look = [] {};
};

/// The report knows all memory: there is no forgotten copy of anything, at any
/// moment of a step.
void expect_known(const distributed::World& world, const json& config) {
  SCOPED_TRACE(
      ::testing::Message() << world.size() << " ranks, " << config.dump());
  const bool bf16 = config.at("bf16").at("enabled").get<bool>();
  warm_up(512, bf16 ? at::kBFloat16 : at::kFloat);
  const testing::CountingAllocator counter;
  const std::int64_t malloced = malloc_bytes();
  auto net = std::make_shared<Watched>(512);
  auto [engine, optimizer, loader, schedule] = initialize(
      {.model = net,
       .config = config.dump(),
       .world = world,
       .logger = Logger({.least = LogLevel::error})});
  const auto check_now = [&, &engine = engine](const char* when) {
    // A sender lets go of its tensor when it has left, at any time.
    const auto before = static_cast<double>(counter.live());
    const MemoryReport report = engine.memory_report();
    const auto after = static_cast<double>(counter.live());
    const auto known = static_cast<double>(
        report.model_states() + report.gathered + report.buffers);
    const double slack = 0.05 * known + 20e3;
    EXPECT_LT(known, before + slack) << when << "\n" << report.describe();
    EXPECT_GT(known, after - slack) << when << "\n" << report.describe();
    // Memory outside of tensors counts too, such as the wire's own buffers.
    EXPECT_LT(
        static_cast<double>(malloc_bytes() - malloced),
        known + slack + 600e3)
        << when;
  };
  check_now("at the start");
  net->look = [&] { check_now("in forward"); };
  for (int i = 0; i < 3; ++i) {
    engine.backward(engine(at::ones({1, 512})).to(at::kFloat).mean());
    check_now("after backward");
    engine.step();
    check_now("after the step");
  }
  net->look = [] {};
}

TEST(Memory, IsWhatTheAllocatorHolds) {
  for (const int ranks : {1, 2, 4}) {
    testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
      for (int stage = 0; stage <= 3; ++stage) {
        for (const bool bf16 : {false, true}) {
          json config = small_buckets(stage, 600'000);
          config["bf16"]["enabled"] = bf16;
          expect_known(world, config);
        }
      }
    });
  }
}

/// Parameters on their way in small integers, or half way between nodes, count.
TEST(Memory, KnowsWhatTravelsPacked) {
  testing::run_processes({.ranks = 4}, [](distributed::InitOptions options) {
    options.environment.local_world_size = 2;
    const distributed::World world = distributed::init_distributed(options);
    const auto check_with = [&](int stage, const json& keys) {
      json config = small_buckets(stage, 600'000);
      config["bf16"]["enabled"] = true;
      config["zero_optimization"].update(keys);
      expect_known(world, config);
    };
    check_with(2, {{"zero_quantized_gradients", true}});
    check_with(
        3,
        {{"zero_hpz_partition_size", 2},
         {"zero_quantized_weights", true},
         {"zero_quantized_gradients", true}});
    check_with(
        3,
        {{"mics_shard_size", 4}, {"mics_hierarchical_params_gather", true}});
  });
}

/// Six layers keep their outputs for backward. Where only the process's pages
/// are known, pages count too that the allocator keeps after a temporary or
/// two.
TEST(Memory, MeasuresActivations) {
  constexpr std::int64_t rows = 16384;
  const double wanted = 6 * rows * 256 * 4;
  for (const int stage : {0, 3}) {
    testing::run_ranks(
        {.ranks = stage == 0 ? 1 : 2},
        [&](const distributed::World& world) {
          auto [engine, optimizer, loader, schedule] = initialize(
              {.model = std::make_shared<Wide>(256),
               .config = small_buckets(stage, 150'000).dump(),
               .world = world,
               .logger = Logger({.least = LogLevel::error})});
          EXPECT_EQ(engine.memory_report().activations, 0);
          for (int i = 0; i < 2; ++i) {
            const at::Tensor x = at::ones({rows, 256});
            engine.backward(engine(x).mean());
            engine.step();
            const auto measured =
                static_cast<double>(engine.memory_report().activations);
            EXPECT_GT(measured, 0.95 * wanted) << stage << ", step " << i;
            EXPECT_LT(measured, 1.4 * wanted) << stage << ", step " << i;
          }
        });
  }
}

/// Adam's second state exists only for the parameters that Muon leaves to it.
TEST(Memory, MuonKeepsOneStateForMatrices) {
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    for (const int stage : {0, 3}) {
      json config = small_buckets(stage, 150'000);
      config["optimizer"] = {{"type", "Muon"}};
      auto [engine, optimizer, loader, schedule] = initialize(
          {.model = std::make_shared<Wide>(256),
           .config = config.dump(),
           .world = world,
           .logger = Logger({.least = LogLevel::error})});
      const double wanted = 6 * 256 * (256 + 2) * 4 / (stage == 3 ? 2 : 1);
      EXPECT_NEAR(
          static_cast<double>(engine.memory_report().optimizer),
          wanted,
          0.05 * wanted)
          << stage;
    }
  });
}

} // namespace
} // namespace cairn::memory_test
