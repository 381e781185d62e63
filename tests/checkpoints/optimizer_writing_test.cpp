// Optimizer states that Cairn writes for Megatron, read back.

#include "checkpoints/internal/foreign_training.h"
#include "checkpoints/internal/lazy_source.h"
#include "checkpoints/internal/portable_checkpoint.h"
#include "megatron_files.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/convert.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
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

/// The names of a group, and the bounds of a learning rate of its own.
std::string text_of(const StoredGroup& group) {
  std::string text = fmt::format("{}", fmt::join(group.names, " "));
  for (const char* bound : {"max_lr", "min_lr"}) {
    if (const auto value = group.options.find(bound)) {
      text += fmt::format(" {} {}", bound, value->real());
    }
  }
  return text;
}

void expect_same_training(const Portable& got, const Portable& wanted) {
  if (wanted.groups.size() > 1) { // a single one is divided for Megatron
    ASSERT_EQ(got.groups.size(), wanted.groups.size());
    for (std::size_t i = 0; i < wanted.groups.size(); ++i) {
      EXPECT_EQ(text_of(got.groups[i]), text_of(wanted.groups[i]));
    }
  }
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
     .distributed = true},
    {.name = "torch_ep2",
     .names = MegatronNames::core_local,
     .split = {.expert = 2}},
    {.name = "torch_distributed_tp2_pp2_ep4",
     .split = {.tensor = 2, .pipeline = 2, .expert = 4},
     .distributed = true},
    {.name = "dist_ep2",
     .format = MegatronFormat::torch_dist,
     .split = {.expert = 2}}};

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
    // Megatron had no experts under its old names, and the states of BERT and
    // T5 are written under the new ones. Its T5 has one stage.
    const bool experts = has_experts(*wanted.description);
    const auto kind = kind_of(wanted.description->family);
    const bool masked = kind != model::ModelKind::gpt;
    if ((experts || masked) && form.names == MegatronNames::legacy) {
      continue;
    }
    if ((!experts && form.split.expert > 1) ||
        (kind == model::ModelKind::t5 && form.split.pipeline > 1)) {
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
           .megatron_names =
               masked ? form.names.value_or(MegatronNames::core) : form.names,
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
        "moe_bf16_distopt/dist_ep2",
        "squared_relu/torch",
        "bert/torch_pp2",
        "bert/dist_bf16_distopt",
        "t5/dist",
        "t5/torch_bf16_distopt"),
    [](const auto& info) {
      std::string name = info.param;
      std::ranges::replace(name, '/', '_');
      return name;
    });

/// The optimizers in a file: one, or those in a list.
std::vector<PythonValue> optimizers_in(const fs::path& file) {
  const PythonValue saved = read_torch_file(file).at("optimizer");
  return saved.is(PythonValue::Kind::list) ? saved.items()
                                           : std::vector<PythonValue>{saved};
}

std::map<std::int64_t, at::Tensor> averages_in(const PythonValue& optimizer) {
  std::map<std::int64_t, at::Tensor> averages;
  for (const auto& [number, state] : optimizer.at("state").entries()) {
    averages.emplace(number.integer(), state.at("exp_avg").tensor());
  }
  return averages;
}

// Megatron's groups: matrices, which decay, in the order of its modules, those
// of them with a learning rate of their own, then vectors; experts that ranks
// divide are a second optimizer's. All the same as in the files of its own.
void expect_megatrons_order(
    const std::string& input,
    const MegatronSplit& split,
    const std::vector<std::string>& ranks) {
  SCOPED_TRACE(input);
  const testing::TemporaryFolder folder;
  convert(
      {.input = core_path(input),
       .megatron = {.keep_padding = true},
       .output = folder / "out",
       .to = CheckpointFormat::megatron,
       .split = split,
       .megatron_names = MegatronNames::core_local,
       .vocabulary_multiple = 8});
  for (const std::string& rank : ranks) {
    SCOPED_TRACE(rank);
    const auto ours =
        optimizers_in(rank_file(folder / "out/iter_0000005", rank));
    const auto theirs =
        optimizers_in(rank_file(core_path(input + "/iter_0000005"), rank));
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      const auto averages = averages_in(ours[i]);
      const auto wanted = averages_in(theirs[i]);
      ASSERT_EQ(averages.size(), wanted.size());
      for (const auto& [number, average] : wanted) {
        EXPECT_TRUE(averages.at(number).equal(average)) << i << ' ' << number;
      }
      const PythonValue groups = ours[i].at("param_groups");
      const PythonValue wanted_groups = theirs[i].at("param_groups");
      ASSERT_EQ(groups.size(), wanted_groups.size());
      for (std::size_t g = 0; g < groups.size(); ++g) {
        for (const char* key :
             {"params",
              "is_expert_parallel",
              "default_config",
              "wd_mult",
              "lr_mult",
              "is_decoupled_lr",
              "max_lr",
              "min_lr",
              "lr",
              "betas",
              "eps",
              "weight_decay"}) {
          EXPECT_EQ(
              groups.items()[g].at(key).describe(),
              wanted_groups.items()[g].at(key).describe())
              << key;
        }
        EXPECT_EQ(groups.items()[g].at("step").integer(), 5);
      }
    }
  }
}

TEST(OptimizerFiles, HaveMegatronsOrder) {
  expect_megatrons_order(
      "gpt/torch_pp2",
      {.pipeline = 2},
      {"mp_rank_00_000", "mp_rank_00_001"});
  expect_megatrons_order(
      "moe/torch_ep2",
      {.expert = 2},
      {"mp_rank_00_000", "mp_rank_00_001"});
  expect_megatrons_order("squared_relu/torch", {}, {"mp_rank_00"});
  expect_megatrons_order(
      "bert/torch_pp2",
      {.pipeline = 2},
      {"mp_rank_00_000", "mp_rank_00_001"});
  expect_megatrons_order(
      "t5/torch_tp2",
      {.tensor = 2},
      {"mp_rank_00", "mp_rank_01"});
}

// The second of the ranks that divide the experts has no states but theirs.
TEST(OptimizerFiles, HaveMegatronsFlatBuffers) {
  const testing::TemporaryFolder folder;
  const fs::path input = core_path("moe_bf16_distopt/torch_ep2");
  convert(
      {.input = input,
       .megatron = {.keep_padding = true},
       .output = folder / "out",
       .to = CheckpointFormat::megatron,
       .type = at::kBFloat16,
       .split = {.expert = 2},
       .megatron_names = MegatronNames::core_local,
       .megatron_distributed_optimizer = true,
       .vocabulary_multiple = 8});
  for (const std::string rank : {"mp_rank_00_000", "mp_rank_00_001"}) {
    const fs::path inside =
        fs::path("iter_0000005") / rank / "distrib_optim.pt";
    const auto ours = read_torch_file(folder / "out" / inside).items();
    const auto theirs = read_torch_file(input / inside).items();
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      ASSERT_EQ(ours[i].is_none(), theirs[i].is_none()) << rank;
      if (theirs[i].is_none()) {
        continue;
      }
      const auto buffer_in = [](const PythonValue& optimizer) {
        for (const auto& [key, value] : optimizer.entries()) {
          if (key.is(PythonValue::Kind::integer)) {
            return value.entries().front().second;
          }
        }
        return PythonValue();
      };
      const PythonValue own = buffer_in(ours[i]);
      const PythonValue wanted = buffer_in(theirs[i]);
      const std::int64_t count = wanted.at("numel_unpadded").integer();
      EXPECT_EQ(own.at("numel_unpadded").integer(), count);
      for (const char* kind : {"param", "exp_avg", "exp_avg_sq"}) {
        EXPECT_TRUE(own.at(kind)
                        .tensor()
                        .narrow(0, 0, count)
                        .equal(wanted.at(kind).tensor().narrow(0, 0, count)))
            << rank << ' ' << i << ' ' << kind;
      }
    }
  }
}

// A checkpoint of `cairn pretrain` has one group; its flags say which
// parameters have a learning rate of their own.
TEST(OptimizerFiles, HaveTheRatesOfTheFlags) {
  const testing::TemporaryFolder folder;
  convert(
      {.input = core_path("squared_relu/torch"), .output = folder / "native"});
  const fs::path manifest = folder / "native/global_step5/manifest.json";
  auto json = nlohmann::json::parse(read_file(manifest, 1 << 20));
  json["version"] = 1; // whose manifests have no checksum
  json["state"].erase("groups");
  json["state"]["optimizer"]["next_values"] = nlohmann::json::parse(
      R"([{"lr": 0.018, "weight_decay": 0.1}, {"lr": 0.018, "weight_decay": 0},
          {"lr": 0.009, "weight_decay": 0.1}])");
  json["config"]["flags"] = {{"--decoupled-lr", 0.01}};
  write_file_atomically(manifest, json.dump());
  const Portable saved = read_from(folder / "native");
  ASSERT_EQ(saved.groups.size(), 2);
  EXPECT_EQ(
      text_of(saved.groups[1]),
      "embedding.word.weight head.weight max_lr 0.01");
  convert(
      {.input = folder / "native",
       .output = folder / "out",
       .to = CheckpointFormat::megatron});
  const auto groups =
      optimizers_in(rank_file(folder / "out/iter_0000005", "mp_rank_00"))[0]
          .at("param_groups")
          .items();
  ASSERT_EQ(groups.size(), 3);
  EXPECT_EQ(groups[0].at("lr").real(), 0.018);
  EXPECT_EQ(groups[1].at("lr").real(), 0.009);
  EXPECT_EQ(groups[1].at("max_lr").real(), 0.01);
  EXPECT_EQ(groups[1].at("params").size(), 2);
}

TEST(OptimizerFiles, ExpertsAreDividedEvenly) {
  const testing::TemporaryFolder folder;
  const auto cut = [&](const std::string& input, std::int64_t ranks) {
    return error_text<ConfigError>([&] {
      convert(
          {.input = core_path(input),
           .output = folder / "out",
           .to = CheckpointFormat::megatron,
           .split = {.expert = ranks}});
    });
  };
  EXPECT_THAT(
      cut("moe/torch_ep2", 3),
      HasSubstr("the experts of a layer cannot be cut over the expert parallel "
                "ranks (4 over 3)"));
  EXPECT_THAT(cut("gpt/torch_pp2", 2), HasSubstr("(1 over 2)"));
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
