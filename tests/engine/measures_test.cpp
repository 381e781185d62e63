#include "engine/nets.h"
#include "engine/profiled_gpt.h"
#include "support/error_text.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/TensorOperators.h>
#include <ATen/record_function.h>
#include <cairn/base/error.h>
#include <cairn/engine/initialize.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

// The sections of the JSON that measure and show: flops_profiler, comms_logger,
// memory_breakdown, wall_clock_breakdown, timers and dump_state.

namespace cairn::engine_measures_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// A net of two layers with a function between them, and no scopes.
struct Net : torch::nn::Module {
  Net() {
    register_module("up", up);
    register_module("down", down);
  }
  at::Tensor forward(const at::Tensor& x) {
    return down->forward(at::relu(up->forward(x)));
  }
  torch::nn::Linear up{8, 16}, down{16, 4};
};

json settings(int stage, const json& more) {
  json result{
      {"train_micro_batch_size_per_gpu", 4},
      {"gradient_accumulation_steps", 2},
      {"optimizer", {{"type", "SGD"}, {"params", {{"lr", 0.1}}}}},
      {"zero_optimization", {{"stage", stage}}}};
  result.update(more);
  return result;
}

void train(
    const distributed::World& world,
    const json& settings,
    int updates = 3) {
  torch::manual_seed(1);
  auto made = initialize(
      {.model = std::make_shared<Net>(),
       .config = settings.dump(),
       .world = world,
       .logger = Logger({.rank = world.rank(), .world_size = world.size()})});
  for (int pass = 0; pass < 2 * updates; ++pass) {
    made.engine.backward(made.engine(at::full({4, 8}, 0.1 * (1 + world.rank())))
                             .square()
                             .mean());
    made.engine.step();
  }
}

/// What rank 0 logs.
std::string log_of(int ranks, const json& settings, int updates = 3) {
  return testing::run_ranks(
             {.ranks = ranks},
             [&](const distributed::World& world) {
               train(world, settings, updates);
             })
      .front()
      .log;
}

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(FlopsProfiler, CountsWhatEveryModuleComputes) {
  for (const int stage : {0, 3}) {
    SCOPED_TRACE(stage);
    const testing::TemporaryFolder folder;
    const std::string file = (folder / "profile.txt").string();
    const std::string log = log_of(
        2,
        settings(
            stage,
            {{"flops_profiler",
              {{"enabled", true},
               {"profile_step", 2},
               {"top_modules", 2},
               {"output_file", file}}}}));
    EXPECT_THAT(log, HasSubstr("the profile is in " + file));
    const std::string text = text_of(file);
    EXPECT_THAT(text, HasSubstr("Profile Summary at step 2:"));
    EXPECT_THAT(text, ContainsRegex("world size: +2\n"));
    EXPECT_THAT(text, ContainsRegex("batch size per GPU: +4\n"));
    // One pass of a micro batch: 4 x 8 x 16 and 4 x 16 x 4 products.
    EXPECT_THAT(text, ContainsRegex("fwd MACs of this rank: +768 MACs\n"));
    EXPECT_THAT(
        text,
        ContainsRegex("up +144 +67.92% +512 MACs +66.67% +1.02 KFLOPs"));
    EXPECT_THAT(
        text,
        ContainsRegex("down +68 +32.08% +256 MACs +33.33% +512 FLOPs"));
    // The input of the first layer needs no gradient, that of the second does.
    EXPECT_THAT(
        text,
        ContainsRegex("\nup .* 1.02 KFLOPs +[0-9.]+ (us|ms|s)\n"));
    EXPECT_THAT(
        text,
        ContainsRegex("\ndown .* 1.02 KFLOPs +[0-9.]+ (us|ms|s)\n"));
    EXPECT_THAT(
        text,
        HasSubstr("MACs        - {'up': '512 MACs', 'down': '256 MACs'}"));
    EXPECT_THAT(text, Not(ContainsRegex("latency: +0.00 us")));
  }
}

TEST(FlopsProfiler, EveryLayerOfATransformerHasWhatArithmeticSays) {
  const model::ModelSizes sizes{
      .layers = 3,
      .hidden = 32,
      .heads = 4,
      .sequence = 16,
      .vocabulary = 61};
  // With biases and without, in float and in another type.
  for (const auto& description :
       {model::gpt_description(sizes),
        model::llama_description(sizes, 2, 48)}) {
    for (const bool bf16 : {false, true}) {
      SCOPED_TRACE(
          ::testing::Message()
          << "gated " << description.gated << " bf16 " << bf16);
      testing::run_ranks({.ranks = 1}, [&](const distributed::World& world) {
        const auto wanted = profiled_gpt::wanted_macs(description, 2);
        EXPECT_EQ(
            profiled_gpt::found_macs(
                profiled_gpt::profile_of(
                    world,
                    description,
                    2,
                    {{"bf16", {{"enabled", bf16}}},
                     {"zero_optimization", {{"stage", bf16 ? 1 : 0}}}}),
                wanted),
            wanted);
      });
    }
  }
}

/// A net whose second pass tries ways to compute.
struct TryingNet : Net {
  at::Tensor forward(const at::Tensor& x) {
    if (++passes == 2) {
      RECORD_FUNCTION("cairn::trial", c10::ArrayRef<const c10::IValue>{});
      Net::forward(x);
    }
    return Net::forward(x);
  }
  int passes = 0;
};

TEST(FlopsProfiler, AnUpdateThatTriesAlgorithmsIsNotTheOneThatItShows) {
  const std::string log =
      testing::run_ranks(
          {.ranks = 1},
          [](const distributed::World& world) {
            auto made = initialize(
                {.model = std::make_shared<TryingNet>(),
                 .config = settings(
                               0,
                               {{"gradient_accumulation_steps", 1},
                                {"flops_profiler", {{"enabled", true}}}})
                               .dump(),
                 .world = world,
                 .logger = Logger({.rank = 0, .world_size = 1})});
            for (int update = 0; update < 4; ++update) {
              made.engine.backward(made.engine(at::ones({4, 8})).mean());
              made.engine.step();
            }
          })
          .front()
          .log;
  EXPECT_THAT(
      log,
      AllOf(
          HasSubstr("update 2 has tried algorithms of products, so a later one "
                    "is profiled"),
          HasSubstr("Profile Summary at step 2:"),
          ContainsRegex("fwd MACs of this rank: +768 MACs\n"),
          Not(HasSubstr("update 3 has tried")),
          Not(HasSubstr("training ended"))));
}

TEST(FlopsProfiler, ShowsAsMuchAsItIsAskedFor) {
  const std::string log = log_of(
      1,
      settings(
          0,
          {{"flops_profiler",
            {{"enabled", true}, {"module_depth", 0}, {"detailed", false}}}}));
  EXPECT_THAT(
      log,
      HasSubstr("depth 0:\n    params      - {'the model': '212'}"));
  EXPECT_THAT(log, Not(HasSubstr("depth 1")));
  EXPECT_THAT(log, Not(HasSubstr("Detailed")));
}

TEST(FlopsProfiler, SaysThatItsStepNeverCame) {
  EXPECT_THAT(
      log_of(
          1,
          settings(
              0,
              {{"flops_profiler", {{"enabled", true}, {"profile_step", 19}}}}),
          12),
      AllOf(
          HasSubstr("training ended before update 20 could be profiled"),
          Not(HasSubstr("time (ms)"))));
}

TEST(CommsLogger, TellsSizesCountsTimesAndBandwidths) {
  const std::string log = log_of(
      2,
      settings(1, {{"comms_logger", {{"enabled", true}, {"verbose", true}}}}));
  // 212 parameters of 4 bytes, padded to 384, for each of three updates.
  EXPECT_THAT(log, HasSubstr("comms_logger: calls of rank 0"));
  EXPECT_THAT(
      log,
      ContainsRegex("reduce_scatter\n +1.50 KB +3 +[0-9.]+ +[0-9.]+ "
                    "+[0-9.e-]+ +[0-9.e-]+\n"));
  EXPECT_THAT(log, ContainsRegex("all_gather\n +1.50 KB +3 "));
  EXPECT_THAT(log, ContainsRegex("comm op: reduce_scatter \\| time \\(ms\\)"));
}

TEST(CommsLogger, KeepsTheKindsThatAreNamedWithTheirCallers) {
  const std::string log = log_of(
      2,
      settings(
          1,
          {{"comms_logger",
            {{"enabled", true},
             {"prof_all", false},
             {"debug", true},
             {"prof_ops", {"all_gather_into_tensor"}}}}}));
  EXPECT_THAT(log, ContainsRegex("all_gather \\| [a-z_]+\\.cpp:[0-9]+\n"));
  EXPECT_THAT(log, Not(HasSubstr("reduce_scatter |")));
  EXPECT_THAT(log, Not(HasSubstr("comm op:"))) << "not verbose";
}

TEST(CommsLogger, RefusesACallThatThereIsNot) {
  testing::run_ranks({.ranks = 1}, [](const distributed::World& world) {
    EXPECT_THAT(
        error_text<ConfigError>([&] {
          train(
              world,
              settings(
                  0,
                  {{"comms_logger",
                    {{"enabled", true}, {"prof_ops", {"gather_all"}}}}}));
        }),
        AllOf(HasSubstr("comms_logger.prof_ops"), HasSubstr("gather_all")));
  });
}

TEST(EngineLog, ShowsMemoryAtEachPhase) {
  const std::string log =
      log_of(1, settings(0, {{"memory_breakdown", true}}), 2);
  for (const char* phase :
       {"before forward",
        "after forward",
        "before backward",
        "after backward",
        "before step",
        "after step"}) {
    EXPECT_THAT(
        log,
        ContainsRegex(
            std::string("memory ") + phase +
            " of update 2 \\| allocated: [0-9.]+ MB \\| max allocated: "));
  }
  EXPECT_THAT(
      log_of(1, settings(0, json::object())),
      Not(HasSubstr("before forward")));
}

TEST(EngineLog, ShowsTimesEvery10UpdatesUnlessToldOtherwise) {
  const char* times = "time \\(ms\\) \\| forward: [0-9.]+ \\| backward: ";
  const json breakdown{{"wall_clock_breakdown", true}};
  EXPECT_THAT(log_of(1, settings(0, breakdown), 9), Not(ContainsRegex(times)));
  EXPECT_THAT(log_of(1, settings(0, breakdown), 10), ContainsRegex(times));
  EXPECT_THAT(
      log_of(
          1,
          settings(
              0,
              {{"wall_clock_breakdown", true}, {"steps_per_print", 3}})),
      ContainsRegex(times));
}

TEST(EngineLog, ThroughputIsNotMeasuredWithoutItsTimer) {
  const json print{{"steps_per_print", 1}};
  EXPECT_THAT(log_of(1, settings(0, print)), HasSubstr("CurrSamplesPerSec"));
  json without = print;
  without["timers"] = {{"throughput", {{"enabled", false}}}};
  EXPECT_THAT(
      log_of(1, settings(0, without)),
      AllOf(HasSubstr("step=3"), Not(HasSubstr("SamplesPerSec"))));
}

TEST(EngineLog, DumpsTheConfigurationInForce) {
  EXPECT_THAT(
      log_of(1, settings(0, {{"dump_state", true}})),
      AllOf(
          HasSubstr("the configuration in force"),
          ContainsRegex("\"gradient_clipping\": *1.0"),
          ContainsRegex("\"train_batch_size\": *8")));
}

} // namespace
} // namespace cairn::engine_measures_test
