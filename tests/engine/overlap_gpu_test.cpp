#include "engine/gpu_trace.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/engine/initialize.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

// The GPU's own trace of a step: copies between host and GPU run while kernels
// do.

namespace cairn::overlap_gpu_test {
namespace {

using nlohmann::json;
using testing::GpuTrace;
using testing::Interval;
using testing::traced;

constexpr std::int64_t width = 4096;
constexpr int layers = 8;

struct Wide : torch::nn::Module {
  Wide() {
    for (int i = 0; i < layers; ++i) {
      stack->push_back(torch::nn::Linear(
          torch::nn::LinearOptions(width, width).bias(false)));
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

/// The part of `these`, in time, during which one of `those` runs.
double share_beside(
    const std::vector<Interval>& these,
    std::vector<Interval> those) {
  std::ranges::sort(those, {}, &Interval::begin);
  std::uint64_t all = 0;
  std::uint64_t beside = 0;
  for (const Interval& interval : these) {
    all += interval.end - interval.begin;
    std::uint64_t covered = interval.begin;
    for (const Interval& other : those) {
      const std::uint64_t begin = std::max(covered, other.begin);
      const std::uint64_t end = std::min(interval.end, other.end);
      if (begin < end) {
        beside += end - begin;
        covered = end;
      }
    }
  }
  return all == 0 ? 0 : static_cast<double>(beside) / static_cast<double>(all);
}

/// States that visit the GPU do so while the next forward runs.
Initialized training_of(const distributed::World& world, const json& zero) {
  const json config{
      {"train_micro_batch_size_per_gpu", 1},
      {"bf16", {{"enabled", true}}},
      {"optimizer", {{"type", "Adam"}, {"params", {{"lr", 1e-4}}}}},
      {"zero_optimization", zero}};
  return initialize(
      {.model = std::make_shared<Wide>(),
       .settings = config::Config::load(
           {.json = config.dump(),
            .flags = {"--overlap-param-gather"},
            .world_size = world.size()}),
       .world = world,
       .logger = Logger({.least = LogLevel::error})});
}

GpuTrace trace_of(const distributed::World& world, const json& zero) {
  auto [engine, optimizer, loader, schedule] = training_of(world, zero);
  const at::Tensor input = at::randn({16384, width}, at::kCUDA);
  const auto step = [&, &engine = engine] {
    engine.backward(engine(input).to(at::kFloat).square().mean());
    engine.step();
    at::ones({1}, at::kCUDA).item(); // the GPU is done
  };
  for (int i = 0; i < 3; ++i) {
    step();
  }
  return traced("stage" + std::to_string(zero.at("stage").get<int>()), step);
}

TEST(OverlapGpu, GradientsLeaveWhileBackwardRuns) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [](const distributed::World& world) {
        const GpuTrace trace = trace_of(
            world,
            {{"stage", 2},
             {"reduce_bucket_size", width * width},
             {"offload_optimizer", {{"device", "cpu"}}}});
        const double share = share_beside(trace.to_host, trace.kernels);
        std::cout << "gradients: " << trace.to_host.size() << " copies, "
                  << 100 * share << "% of their time beside kernels\n";
        EXPECT_GE(trace.to_host.size(), layers);
        EXPECT_GT(share, 0.4);
      });
}

const json visiting_states{
    {"stage", 1},
    {"reduce_bucket_size", width* width},
    {"offload_optimizer", {{"device", "cpu"}, {"update_on", "gpu"}}}};

TEST(OverlapGpu, StatesVisitWhileTheNextPassesRun) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [](const distributed::World& world) {
        auto [engine, optimizer, loader, schedule] =
            training_of(world, visiting_states);
        const at::Tensor input = at::randn({65536, width}, at::kCUDA);
        const auto steps = [&, &engine = engine] {
          for (int i = 0; i < 3; ++i) {
            engine.backward(engine(input).to(at::kFloat).square().mean());
            engine.step();
          }
          at::ones({1}, at::kCUDA).item(); // the GPU is done
        };
        steps();
        const GpuTrace trace = traced("visits", steps);
        for (const auto& copies : {trace.to_device, trace.to_host}) {
          const double share = share_beside(copies, trace.kernels);
          std::cout << "states: " << copies.size() << " copies, " << 100 * share
                    << "% of their time beside kernels\n";
          EXPECT_GE(copies.size(), layers);
          EXPECT_GT(share, 0.3);
        }
      });
}

/// The layers that are computed first have their states on the GPU, so the
/// others' have a whole forward pass to visit in.
TEST(OverlapGpu, StatesOfTheLastLayersVisitWhileTheFirstCompute) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [](const distributed::World& world) {
        json half = visiting_states;
        half["offload_optimizer"]["ratio"] = 0.5;
        half["offload_optimizer"]["buffer_count"] = 2; // fewer than visitors
        auto [engine, optimizer, loader, schedule] = training_of(world, half);
        const at::Tensor input = at::randn({131072, width}, at::kCUDA);
        const auto steps = [&, &engine = engine] {
          for (int i = 0; i < 3; ++i) {
            engine.backward(engine(input).to(at::kFloat).square().mean());
            engine.step();
          }
          engine(input); // beside which the last update's states visit
          at::ones({1}, at::kCUDA).item(); // the GPU is done
        };
        steps();
        const GpuTrace trace = traced("late_visits", steps);
        for (const auto& copies : {trace.to_device, trace.to_host}) {
          const double share = share_beside(copies, trace.kernels);
          std::cout << "states of the last half: " << copies.size()
                    << " copies, " << 100 * share
                    << "% of their time beside kernels\n";
          EXPECT_GE(copies.size(), layers / 2);
          EXPECT_GT(share, 0.8);
        }
      });
}

/// The host runs ahead of the GPU, so that any missing wait shows.
TEST(OverlapGpu, StatesThatVisitGiveTheSameBits) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [](const distributed::World& world) {
        const auto weights_after = [&](const json& zero) {
          at::manual_seed(3);
          auto [engine, optimizer, loader, schedule] = training_of(world, zero);
          const at::Tensor input = at::randn({2048, width}, at::kCUDA);
          for (int i = 0; i < 12; ++i) {
            engine.backward(engine(input).to(at::kFloat).square().mean());
            engine.step();
          }
          std::vector<at::Tensor> weights;
          for (int i = 0; i < layers; ++i) {
            weights.push_back(engine.full_parameter(
                "stack." + std::to_string(i) + ".weight"));
          }
          return weights;
        };
        const auto wanted = weights_after(
            {{"stage", 1}, {"reduce_bucket_size", width * width}});
        json half = visiting_states;
        half["offload_optimizer"]["ratio"] = 0.5;
        json measured = visiting_states;
        measured["offload_optimizer"]["update_on"] = "measured";
        const auto with_buffers = [](int count) {
          json zero = visiting_states;
          zero["offload_optimizer"]["buffer_count"] = count;
          return zero;
        };
        for (const json& zero :
             {visiting_states,
              half,
              measured,
              with_buffers(2),
              with_buffers(layers - 1),
              with_buffers(layers + 1)}) {
          SCOPED_TRACE(zero.dump());
          const auto found = weights_after(zero);
          for (int i = 0; i < layers; ++i) {
            EXPECT_TRUE(at::equal(found[i], wanted[i])) << i;
          }
        }
      });
}

TEST(OverlapGpu, ParametersComeWhileOthersAreUsed) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [](const distributed::World& world) {
        const GpuTrace trace = trace_of(
            world,
            {{"stage", 3},
             {"reduce_bucket_size", width * width},
             {"stage3_prefetch_bucket_size", 2 * width * width},
             {"stage3_max_live_parameters", 3 * width * width},
             {"stage3_max_reuse_distance", 0},
             {"offload_param", {{"device", "cpu"}}},
             {"offload_optimizer", {{"device", "cpu"}}}});
        const double share = share_beside(trace.to_device, trace.kernels);
        std::cout << "parameters: " << trace.to_device.size() << " copies, "
                  << 100 * share << "% of their time beside kernels\n";
        EXPECT_GE(trace.to_device.size(), layers);
        // The first layer has nothing to hide behind.
        EXPECT_GT(share, 0.4);
      });
}

} // namespace
} // namespace cairn::overlap_gpu_test
