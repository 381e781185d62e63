#include "engine/profiled_gpt.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/Functions.h>
#include <cairn/engine/initialize.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <regex>
#include <string>

// What measures_test.cpp says of a CPU, of a GPU: times are those of its
// kernels, memory is that of its allocator, and NCCL's messages have their
// sizes.

namespace cairn::measures_gpu_test {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr std::int64_t rows = 8192;
constexpr std::int64_t narrow = 2048;
constexpr std::int64_t wide = 8192;

/// Two large products, each of 0.3 ms or more on any GPU of today: much longer
/// than the host takes to launch one.
struct Net : torch::nn::Module {
  Net() {
    register_module("up", up);
    register_module("down", down);
  }
  at::Tensor forward(const at::Tensor& x) {
    return down->forward(at::relu(up->forward(x)));
  }
  torch::nn::Linear up{torch::nn::LinearOptions(narrow, wide).bias(false)};
  torch::nn::Linear down{torch::nn::LinearOptions(wide, narrow).bias(false)};
};

Initialized training(const distributed::World& world, const json& more) {
  json config{
      {"train_micro_batch_size_per_gpu", 1},
      {"bf16", {{"enabled", true}}},
      {"optimizer", {{"type", "SGD"}, {"params", {{"lr", 0.1}}}}},
      {"zero_optimization", {{"stage", 1}}}};
  config.update(more);
  return initialize(
      {.model = std::make_shared<Net>(),
       .config = config.dump(),
       .world = world,
       .logger = Logger({.rank = world.rank(), .world_size = world.size()})});
}

at::Tensor input() {
  return at::randn(
      {rows, narrow},
      at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
}

void train(Initialized& made, int updates) {
  const at::Tensor x = input();
  for (int i = 0; i < updates; ++i) {
    made.engine.backward(made.engine(x).to(at::kFloat).square().mean());
    made.engine.step();
  }
}

testing::RanksOptions on_gpu() {
  return {.ranks = 1, .backend = distributed::BackendChoice::automatic};
}

/// Seconds of the product of the first layer.
double product_seconds() {
  const at::Tensor x = input();
  const at::Tensor weight = at::randn({wide, narrow}, x.options());
  constexpr int calls = 20;
  double took = 0;
  for (int round = 0; round < 3; ++round) {
    at::accelerator::synchronizeDevice(0);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) {
      at::linear(x, weight);
    }
    at::accelerator::synchronizeDevice(0);
    took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
  }
  return took / calls;
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The time that the profile's text has behind what `pattern` matches.
double seconds_behind(const std::string& text, const std::string& pattern) {
  std::smatch found;
  const std::regex line(pattern + " +([0-9.]+) (us|ms|s)\\b");
  if (!std::regex_search(text, found, line)) {
    ADD_FAILURE() << "no " << pattern << " in\n" << text;
    return 0;
  }
  const std::string unit = found[2];
  return std::stod(found[1]) * (unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : 1);
}

TEST(FlopsProfilerGpu, TimesAreThoseOfKernels) {
  const testing::TemporaryFolder folder;
  testing::run_ranks(on_gpu(), [&](const distributed::World& world) {
    const auto file = folder / "profile.txt";
    auto made = training(
        world,
        {{"flops_profiler",
          {{"enabled", true},
           {"profile_step", 3},
           {"output_file", file.string()}}}});
    train(made, 5);
    const std::string text = text_of(file);
    // 8192 x 2048 x 8192, twice.
    EXPECT_THAT(text, ContainsRegex("fwd MACs of this rank: +274.88 GMACs\n"));
    const std::string columns = " [^\n]*MACs +50.00% +274.88 GFLOPs";
    const double up = seconds_behind(text, "\nup" + columns);
    const double down = seconds_behind(text, "\ndown" + columns);
    const double product = product_seconds();
    EXPECT_GT(up, 0.6 * product);
    EXPECT_LT(up, 2 * product);
    EXPECT_GT(down, 0.6 * product);
    EXPECT_LT(down, 2 * product);
    EXPECT_GE(seconds_behind(text, "fwd latency:"), 0.98 * (up + down));
    EXPECT_GE(seconds_behind(text, "bwd latency:"), 1.2 * product);
  });
}

TEST(FlopsProfilerGpu, EveryLayerOfATransformerHasWhatArithmeticSays) {
  const model::ModelSizes sizes{
      .layers = 4,
      .hidden = 1024,
      .heads = 8,
      .sequence = 1024,
      .vocabulary = 8192};
  constexpr std::int64_t sequences = 8;
  for (const auto& description :
       {model::gpt_description(sizes),
        model::llama_description(sizes, 2, 3072)}) {
    // The first update tries algorithms, unless another process has done so.
    for (const int step : {0, 2}) {
      SCOPED_TRACE(
          ::testing::Message()
          << "gated " << description.gated << " step " << step);
      testing::run_ranks(on_gpu(), [&](const distributed::World& world) {
        const std::string text = profiled_gpt::profile_of(
            world,
            description,
            sequences,
            {{"bf16", {{"enabled", true}}},
             {"zero_optimization", {{"stage", 1}}},
             {"flops_profiler", {{"profile_step", step}}}});
        const auto wanted = profiled_gpt::wanted_macs(description, sequences);
        EXPECT_EQ(profiled_gpt::found_macs(text, wanted), wanted);
        const auto seconds = [&](const std::string& module) {
          return profiled_gpt::row_of(text, module).forward_seconds;
        };
        double layers = 0;
        for (int i = 0; i < 4; ++i) {
          const std::string layer = "layers." + std::to_string(i);
          layers += seconds(layer);
          for (const char* part :
               {".attention.query_key_value",
                ".attention.dense",
                ".mlp.up",
                ".mlp.down"}) {
            EXPECT_GT(seconds(layer + part), 0) << layer << part;
            EXPECT_LT(
                seconds(layer + part),
                1.5 * seconds(std::string("layers.0") + part))
                << layer << part;
          }
        }
        // Figures are rounded.
        EXPECT_NEAR(layers, seconds("layers"), 0.02 * layers);
        EXPECT_LT(
            layers + seconds("embedding") + seconds("final_norm"),
            1.02 * seconds("the model"));
        EXPECT_LT(
            seconds("the model"),
            1.02 * seconds_behind(text, "fwd latency:"));
      });
    }
  }
}

TEST(EngineLogGpu, MemoryIsThatOfTheAllocator) {
  const std::string log =
      testing::run_ranks(
          on_gpu(),
          [](const distributed::World& world) {
            auto made = training(world, {{"memory_breakdown", true}});
            const at::Tensor x = input();
            const at::Tensor y = made.engine(x);
            const at::Tensor loss = y.sum(at::kFloat);
            const at::Tensor between = at::empty(
                {64'000'000},
                at::TensorOptions(at::kCUDA).dtype(at::kByte));
            made.engine.backward(loss);
            made.engine.step();
            const auto stats = at::accelerator::getDeviceStats(0);
            std::cerr << "held "
                      << static_cast<double>(stats.allocated_bytes[0].current) /
                    1e6
                      << " MB\n";
          })
          .front()
          .log;
  EXPECT_THAT(
      log,
      ContainsRegex("memory before backward of update 1 [^\n]*since the phase "
                    "before: \\+64\\.0[0-9] MB"));
  std::smatch shown;
  std::smatch held;
  ASSERT_TRUE(std::regex_search(
      log,
      shown,
      std::regex("memory after step of update 1 \\| allocated: ([0-9.]+) MB")))
      << log;
  ASSERT_TRUE(std::regex_search(log, held, std::regex("held ([0-9.]+) MB")))
      << log;
  EXPECT_NEAR(std::stod(shown[1]), std::stod(held[1]), 0.02);
}

TEST(CommsLoggerNccl, TellsSizesCountsTimesAndBandwidths) {
  const std::string log =
      testing::run_ranks(
          testing::ranks_on_one_gpu(2),
          [](const distributed::World& world) {
            auto made =
                training(world, {{"comms_logger", {{"enabled", true}}}});
            train(made, 3);
          })
          .front()
          .log;
  EXPECT_THAT(log, HasSubstr("comms_logger: calls of rank 0"));
  // Two buckets of 2048 x 8192 parameters in bf16, in each of three updates.
  const std::string numbers = " +6 +[1-9][0-9.]* +[0-9.]+ +[0-9.]+ +[0-9.]+\n";
  EXPECT_THAT(log, ContainsRegex("all_gather\n +32.00 MB" + numbers));
  EXPECT_THAT(log, ContainsRegex("reduce_scatter\n +32.00 MB" + numbers));
}

} // namespace
} // namespace cairn::measures_gpu_test
