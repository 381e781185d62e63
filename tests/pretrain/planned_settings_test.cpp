// The planner's answers where the JSON says "auto", on machines whose memory
// decides.

#include "pretrain/internal/planned_settings.h"

#include <cairn/plan/from_config.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace cairn::pretrain::planned_settings_test {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

plan::Cluster machine_with(double memory_bytes) {
  plan::Cluster machine = plan::cpu_machine(2);
  machine.gpu.memory_bytes = memory_bytes;
  machine.host.memory_bytes = 1e12;
  return machine;
}

/// A GPT on two ranks with this JSON and these flags more.
config::ConfigSource source(
    const std::string& json,
    const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags{
      "--num-layers",
      "8",
      "--hidden-size",
      "128",
      "--num-attention-heads",
      "4",
      "--seq-length",
      "64",
      "--max-position-embeddings",
      "64",
      "--vocab-size",
      "4000",
      "--tokenizer-type",
      "NullTokenizer",
      "--mock-data",
      "--lr",
      "1e-3",
      "--global-batch-size",
      "16"};
  flags.insert(flags.end(), more.begin(), more.end());
  return {.json = json, .flags = flags, .world_size = 2};
}

PlannedConfig answers(const config::ConfigSource& asked, double memory_bytes) {
  return load_planned(Kind::gpt, asked, [&] {
    return std::optional(machine_with(memory_bytes));
  });
}

double memory_of(const config::Config& config) {
  const model::ModelDescription model =
      plan::training_of(Kind::gpt, config).model;
  return plan::estimate(
             plan::training_of(Kind::gpt, config),
             plan::layout_of(model, config),
             machine_with(1e12))
      .memory.total();
}

std::string offload(const std::string& ratio) {
  return fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {{
          "stage": 1, "reduce_bucket_size": 1000000,
          "offload_optimizer": {{"device": "cpu", "update_on": "gpu",
            "buffer_count": 2, "ratio": {}}}}}}})",
      ratio);
}

TEST(PlannedSettings, TheRatioIsTheSmallestWithWhichTheRestFits) {
  // Of far more buckets than visit the GPU at a time.
  const std::vector<std::string> wide{
      "--num-layers",
      "8",
      "--hidden-size",
      "512"};
  const auto needed = [&](const std::string& ratio) {
    return memory_of(config::Config::load(source(offload(ratio), wide)));
  };
  EXPECT_GT(needed("0.35"), needed("0.4") + 1e5);
  for (const char* ratio : {"0.4", "0.75", "1"}) {
    const double room = needed(ratio) + 1e4;
    const PlannedConfig planned =
        answers(source(offload("\"auto\""), wide), room);
    EXPECT_EQ(
        planned.config.deepspeed.zero.offload_optimizer->ratio,
        std::stod(ratio));
    EXPECT_THAT(
        planned.answers,
        ElementsAre(StartsWith(fmt::format(
            "zero_optimization.offload_optimizer.ratio \"auto\" is {}: by "
            "plan ",
            ratio))));
  }
}

// A cut by work gives the first stage three of five layers, and under 1F1B this
// stage has two micro batches live: where memory is short, the answer is a cut
// that counts the embedding's parameters.
TEST(PlannedSettings, MemoryDecidesAboutTheCut) {
  const std::vector<std::string> pipeline{
      "--pipeline-model-parallel-size",
      "2",
      "--micro-batch-size",
      "4",
      "--seq-length",
      "512",
      "--max-position-embeddings",
      "512",
      "--vocab-size",
      "4600",
      "--num-layers",
      "5"};
  const auto with_cut = [&](const std::string& cut) {
    return source(
        cut.empty()
            ? "{}"
            : fmt::format(R"({{"pipeline": {{"partition": "{}"}}}})", cut),
        pipeline);
  };
  std::map<std::string, double> needed;
  for (const char* cut : {"", "balanced", "parameters", "uniform"}) {
    needed[cut] = memory_of(config::Config::load(with_cut(cut)));
  }
  const auto least = std::ranges::min_element(
      needed,
      {},
      &std::pair<const std::string, double>::second);
  ASSERT_LT(least->second, needed[""] - 1e4)
      << "memory makes a difference: " << ::testing::PrintToString(needed);

  const PlannedConfig roomy = answers(with_cut("auto"), 1e12);
  EXPECT_THAT(
      roomy.answers,
      ElementsAre(StartsWith("pipeline.partition \"auto\" is a cut by work")));
  const PlannedConfig tight = answers(with_cut("auto"), least->second + 1e3);
  EXPECT_NEAR(memory_of(tight.config), least->second, 1);
  ASSERT_EQ(tight.answers.size(), 1U);
  EXPECT_THAT(
      tight.answers.front(),
      StartsWith("pipeline.partition \"auto\" is \""));
}

TEST(PlannedSettings, TheMicroBatchIsTheFastestThatFits) {
  const auto json = R"({"train_micro_batch_size_per_gpu": "auto"})";
  const auto chosen = [&](double room) {
    return answers(source(json), room).config.deepspeed.batch->micro;
  };
  const auto needed = [](const std::string& micro) {
    return memory_of(
        config::Config::load(source("{}", {"--micro-batch-size", micro})));
  };
  const auto most = chosen(1e12);
  ASSERT_GT(most, 2);
  EXPECT_EQ(chosen(needed("2") + 1e3), 2);
  EXPECT_EQ(chosen(needed("1") + 1e3), 1);
}

} // namespace
} // namespace cairn::pretrain::planned_settings_test
