// Optimizer states that Cairn writes for Megatron, read back.

#include "checkpoints/internal/foreign_training.h"
#include "checkpoints/internal/lazy_source.h"
#include "checkpoints/internal/portable_checkpoint.h"
#include "megatron_files.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/convert.h>
#include <cairn/checkpoints/torch_file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints::optimizer_writing_test {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

fs::path core_path(const std::string& name) {
  return golden_path("checkpoints_core/" + name);
}

Portable read_from(const fs::path& input) {
  return read_portable(
      detect_checkpoint_format(input),
      {.input = input, .to = CheckpointFormat::native});
}

void expect_same_training(const Portable& got, const Portable& wanted) {
  EXPECT_EQ(got.left_out, std::vector<std::string>());
  EXPECT_EQ(got.steps, wanted.steps);
  EXPECT_EQ(got.samples, wanted.samples);
  EXPECT_EQ(got.schedule_samples, wanted.schedule_samples);
  expect_same(loaded(got.optimizer_states), loaded(wanted.optimizer_states));
  expect_same(loaded(got.parameters), loaded(wanted.parameters));
}

struct Form {
  std::string name;
  MegatronFormat format = MegatronFormat::torch;
  std::optional<MegatronNames> names{};
  MegatronSplit split{};
  bool distributed = false;
};

const std::vector<Form> forms{
    {.name = "torch"},
    {.name = "torch_tp2_pp2", .split = {.tensor = 2, .pipeline = 2}},
    {.name = "torch_local",
     .names = MegatronNames::core_local,
     .split = {.pipeline = 2}},
    {.name = "torch_legacy",
     .names = MegatronNames::legacy,
     .split = {.pipeline = 2}},
    {.name = "torch_distributed",
     .split = {.tensor = 2, .pipeline = 2},
     .distributed = true},
    {.name = "dist", .format = MegatronFormat::torch_dist},
    {.name = "dist_distributed",
     .format = MegatronFormat::torch_dist,
     .distributed = true}};

class WrittenOptimizer : public ::testing::TestWithParam<std::string> {};

TEST_P(WrittenOptimizer, IsReadAsItWas) {
  const testing::TemporaryFolder folder;
  const fs::path input = core_path(GetParam());
  const Portable wanted = read_from(input);
  ASSERT_FALSE(wanted.optimizer_states.empty());
  convert({.input = input, .output = folder / "native"});
  expect_same_training(read_from(folder / "native"), wanted);
  for (const Form& form : forms) {
    SCOPED_TRACE(form.name);
    // Megatron had no experts under its old names.
    if (has_experts(*wanted.description) &&
        form.names == MegatronNames::legacy) {
      continue;
    }
    for (const fs::path& from : {input, folder / "native"}) {
      const fs::path output =
          folder / (form.name + "_of_" + from.filename().string());
      const ConvertReport report = convert(
          {.input = from,
           .output = output,
           .to = CheckpointFormat::megatron,
           .type = wanted.trained_in,
           .split = form.split,
           .megatron_names = form.names,
           .megatron_format = form.format,
           .megatron_distributed_optimizer = form.distributed,
           .vocabulary_multiple = 8});
      EXPECT_TRUE(report.optimizer);
      expect_same_training(read_from(output), wanted);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden,
    WrittenOptimizer,
    ::testing::Values(
        "gpt/torch_pp2",
        "llama/dist_tp2_pp2",
        "llama_bf16/torch_tp1",
        "gpt_bf16_distopt/dist_dp2_full",
        "gpt_mds/zero1_pp2_dp2",
        "gpt_mds_zero/zero3",
        "moe/torch_ep2",
        "moe_bf16_distopt/dist_ep2"),
    [](const auto& info) {
      std::string name = info.param;
      std::ranges::replace(name, '/', '_');
      return name;
    });

// Megatron's order: matrices, which decay, in the order of its modules, then
// vectors; the same as in the file of its own.
TEST(OptimizerFiles, HasMegatronsOrder) {
  const testing::TemporaryFolder folder;
  convert(
      {.input = core_path("gpt/torch_pp2"),
       .output = folder / "out",
       .to = CheckpointFormat::megatron,
       .split = {.pipeline = 2},
       .vocabulary_multiple = 8});
  for (const std::string rank : {"mp_rank_00_000", "mp_rank_00_001"}) {
    const PythonValue ours =
        read_torch_file(rank_file(folder / "out/iter_0000005", rank))
            .at("optimizer");
    const PythonValue theirs =
        read_torch_file(
            rank_file(core_path("gpt/torch_pp2/iter_0000005"), rank))
            .at("optimizer");
    ASSERT_EQ(ours.at("state").size(), theirs.at("state").size());
    for (const auto& [number, state] : theirs.at("state").entries()) {
      for (const auto& [key, own] : ours.at("state").entries()) {
        if (key.integer() == number.integer()) {
          // The vocabulary's padding is new.
          const at::Tensor wanted = state.at("exp_avg").tensor();
          const std::int64_t rows = wanted.size(0) == 56 ? 49 : wanted.size(0);
          EXPECT_TRUE(own.at("exp_avg")
                          .tensor()
                          .narrow(0, 0, rows)
                          .equal(wanted.narrow(0, 0, rows)))
              << rank << ' ' << number.integer();
        }
      }
    }
    EXPECT_EQ(ours.at("param_groups").items().at(1).at("step").integer(), 5);
  }
}

TEST(OptimizerFiles, WhatCannotBeWrittenIsSaid) {
  const testing::TemporaryFolder folder;
  ConvertOptions options{
      .input = core_path("gpt/torch_pp2"),
      .output = folder / "out",
      .to = CheckpointFormat::megatron,
      .megatron_names = MegatronNames::legacy,
      .megatron_distributed_optimizer = true};
  EXPECT_THAT(
      error_text<ConfigError>([&] { convert(options); }),
      HasSubstr("the distributed optimizer is only written under "
                "Megatron-Core's names"));
  options.megatron_distributed_optimizer = false;
  const ConvertReport report = convert(options);
  EXPECT_TRUE(report.optimizer);
  EXPECT_THAT(
      report.left_out,
      Contains(HasSubstr("7 rows of the vocabulary's padding, which the run "
                         "trained with the others")));
  options.output = folder / "kept";
  options.megatron.keep_padding = true;
  EXPECT_EQ(convert(options).left_out, std::vector<std::string>());
}

TEST(ForeignTraining, IsWhatAnEngineTakes) {
  const ForeignTraining training =
      open_training({.input = core_path("gpt/torch_pp2")});
  EXPECT_EQ(training.steps, 5);
  EXPECT_EQ(training.samples, 20);
  EXPECT_TRUE(training.optimizer);
  EXPECT_TRUE(training.schedule);
  const auto numbers = nlohmann::json::parse(training.numbers);
  EXPECT_EQ(numbers.at("schedule_samples"), 20);
  EXPECT_EQ(numbers.at("schedule_steps"), 5);
  EXPECT_EQ(numbers.at("optimizer").at("name"), "adamw");
  EXPECT_EQ(numbers.at("optimizer").at("steps"), 5);
  EXPECT_TRUE(training.tensors->contains("exp_avg/embedding.word.weight"));
  EXPECT_FALSE(training.tensors->contains("exp_avg/nothing"));
}

TEST(LazySource, GivesAnyPartOfATensor) {
  const at::Tensor whole = at::arange(60, at::kFloat).view({5, 4, 3});
  const LazySource source(NamedTensors{
      {"cube", LazyTensor(at::kFloat, {5, 4, 3}, [whole] { return whole; })},
      {"number",
       LazyTensor(at::kFloat, {}, [] { return at::full({}, 7.0); })}});
  for (const Box& box :
       {Box{}, Box{{1, 1, 0}, {3, 2, 3}}, Box{{0, 0, 1}, {5, 4, 1}}}) {
    at::Tensor part = whole;
    for (std::size_t d = 0; d < box.begin.size(); ++d) {
      part =
          part.narrow(static_cast<std::int64_t>(d), box.begin[d], box.size[d]);
    }
    part = part.reshape({-1});
    for (std::int64_t begin = 0; begin < part.numel(); begin += 4) {
      const std::int64_t count =
          std::min<std::int64_t>(7, part.numel() - begin);
      const at::Tensor got = at::empty({count}, at::kDouble);
      source.read("cube", box, begin, got);
      EXPECT_TRUE(got.equal(part.narrow(0, begin, count).to(at::kDouble)))
          << begin;
    }
  }
  const at::Tensor number = at::empty({1}, at::kFloat);
  source.read("number", 0, number);
  EXPECT_EQ(number.item<float>(), 7);
  EXPECT_THAT(
      error_text<CheckpointError>(
          [&] { source.read("cube", 55, at::empty({6}, at::kFloat)); }),
      HasSubstr("cube has shape [5, 4, 3]"));
  EXPECT_THAT(
      error_text<CheckpointError>(
          [&] { source.read("ball", 0, at::empty({6}, at::kFloat)); }),
      HasSubstr("no such tensor (ball)"));
}

} // namespace
} // namespace cairn::checkpoints::optimizer_writing_test
