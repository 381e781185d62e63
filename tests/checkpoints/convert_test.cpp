#include "base/internal/freed_memory.h"
#include "checkpoints/internal/portable_checkpoint.h"
#include "monitor/internal/process_memory.h"
#include "same_tensors.h"
#include "support/error_text.h"
#include "support/golden_tensors.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/convert.h>
#include <cairn/checkpoints/deepspeed.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/safetensors.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <stop_token>
#include <string>
#include <thread>

namespace cairn::checkpoints::convert_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Format = CheckpointFormat;
using Tensors = std::map<std::string, at::Tensor>;

fs::path golden(const std::string& name) {
  return fs::path(CAIRN_GOLDEN_DIR) / name;
}

Portable read(const fs::path& place) {
  return read_portable(
      detect_checkpoint_format(place),
      {.input = place, .output = {}});
}

Tensors parameters(const fs::path& place) {
  return loaded(read(place).parameters);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

TEST(Convert, FindsOutWhoseFilesTheyAre) {
  const std::map<std::string, Format> wanted{
      {"checkpoints/deepspeed_z0_fp32_w1", Format::deepspeed},
      {"checkpoints/deepspeed_z3_bf16_w2", Format::deepspeed},
      {"checkpoints/deepspeed_z3_bf16_w2/global_step10", Format::deepspeed},
      {"checkpoints/megatron_tp2", Format::megatron},
      {"checkpoints/megatron_tp2/iter_0000010", Format::megatron},
      {"checkpoints/megatron_release_fp16", Format::megatron},
      {"checkpoints/torch_optimizer.pt", Format::torch},
      {"checkpoints/nested_legacy.pt", Format::torch},
      {"checkpoints/gpt2_logits.safetensors", Format::safetensors},
      {"models/llama", Format::huggingface}};
  for (const auto& [name, format] : wanted) {
    EXPECT_EQ(detect_checkpoint_format(golden(name)), format) << name;
  }
}

TEST(Convert, SaysWhatItLookedFor) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(
      error_text<CheckpointError>(
          [&] { detect_checkpoint_format(folder / "none"); }),
      HasSubstr("there is no such file or folder"));
  EXPECT_THAT(
      error_text<CheckpointError>(
          [&] { detect_checkpoint_format(folder.path()); }),
      AllOf(
          HasSubstr("manifest.json"),
          HasSubstr("latest_checkpointed_iteration.txt"),
          HasSubstr("model.safetensors")));
  EXPECT_THAT(
      error_text<CheckpointError>([&] {
        detect_checkpoint_format(folder.write("notes.txt", "not a model"));
      }),
      HasSubstr("neither a file of torch.save nor one of safetensors"));
  const testing::TemporaryFolder both;
  both.write("model.safetensors", "");
  both.write("checkpoint.pt", "");
  EXPECT_THAT(
      error_text<CheckpointError>(
          [&] { detect_checkpoint_format(both.path()); }),
      HasSubstr("several formats in one folder (huggingface, torch)"));
}

/// Converts through every format and back; nothing changes.
void go_round(const std::string& model, const MegatronSplit& split) {
  const testing::TemporaryFolder folder;
  const HuggingFaceModel first = read_huggingface(golden("models/" + model));
  const Tensors wanted = loaded(first.tensors);
  fs::path input = golden("models/" + model);
  int n = 0;
  const auto step = [&](Format to, const ConvertOptions& more) {
    ConvertOptions options = more;
    options.input = input;
    options.to = to;
    options.output = folder / fmt::format("{}-{}", ++n, name_of(to));
    const ConvertReport report = convert(options);
    EXPECT_EQ(report.tensors, wanted.size());
    EXPECT_THAT(report.left_out, IsEmpty());
    input = options.output;
    EXPECT_EQ(detect_checkpoint_format(input), to);
  };
  step(Format::native, {.output = {}});
  step(Format::huggingface, {.output = {}});
  step(Format::megatron, {.output = {}, .split = split});
  step(Format::deepspeed, {.output = {}, .zero_stage = 3, .zero_ranks = 2});
  step(Format::torch, {.output = {}});
  step(Format::native, {.output = {}});
  expect_same(parameters(input), wanted);
  step(Format::huggingface, {.output = {}});
  const HuggingFaceModel last = read_huggingface(input);
  expect_same(loaded(last.tensors), wanted);
}

TEST(Convert, ThroughAllFormatsAndBack) {
  go_round("gpt2", {.tensor = 2});
  go_round("llama", {.tensor = 2, .pipeline = 2});
}

/// Models that Megatron does not have go through the other formats.
TEST(Convert, OthersGoThroughTheRest) {
  for (const char* model : {"bert", "t5_relu", "t5_gated_gelu"}) {
    const testing::TemporaryFolder folder;
    const fs::path from = golden(fmt::format("models/{}", model));
    convert({.input = from, .output = folder / "a", .to = Format::native});
    convert(
        {.input = folder / "a",
         .output = folder / "b",
         .to = Format::deepspeed});
    convert(
        {.input = folder / "b",
         .output = folder / "c",
         .to = Format::huggingface});
    expect_same(parameters(folder / "c"), parameters(from));
    EXPECT_THAT(
        error_text<ConfigError>([&] {
          convert(
              {.input = folder / "c",
               .output = folder / "d",
               .to = Format::megatron});
        }),
        HasSubstr("Megatron has no model with"));
    EXPECT_THAT(names_in(folder.path()), ElementsAre("a", "b", "c"));
  }
}

/// The weights and the optimizer's states go there and back, at another stage
/// and number of ranks.
TEST(Convert, DeepSpeedGoesOnAfterwards) {
  for (const char* name :
       {"z0_bf16_w1",
        "z0_fp32_w1",
        "z1_bf16_w2_groups",
        "z2_fp16_w2",
        "z3_bf16_w2"}) {
    const testing::TemporaryFolder folder;
    const fs::path from = golden(fmt::format("checkpoints/deepspeed_{}", name));
    const ConvertReport report = convert(
        {.input = from, .output = folder / "native", .to = Format::native});
    EXPECT_TRUE(report.optimizer) << name;
    EXPECT_THAT(report.left_out, IsEmpty()) << name;
    convert(
        {.input = folder / "native",
         .output = folder / "again",
         .to = Format::deepspeed,
         .zero_stage = 3,
         .zero_ranks = 3});
    const DeepSpeedCheckpoint before({.folder = from});
    const DeepSpeedCheckpoint after({.folder = folder / "again"});
    EXPECT_EQ(after.stage(), 3);
    EXPECT_EQ(after.global_steps(), 10);
    EXPECT_EQ(after.skipped_steps(), before.skipped_steps());
    EXPECT_EQ(after.groups().size(), before.groups().size()) << name;
    EXPECT_EQ(
        after.groups()[0].options.at("lr").real(),
        before.groups()[0].options.at("lr").real());
    EXPECT_EQ(after.client_state().at("note").text(), "client");
    if (before.stage() > 0) { // otherwise the masters are the exact ones
      expect_same(loaded(after.fp32_weights()), loaded(before.fp32_weights()));
    }
    for (const char* kind : {"exp_avg/", "exp_avg_sq/"}) {
      const auto only = [&](NamedTensors tensors) {
        std::erase_if(tensors, [&](const auto& named) {
          return !named.first.starts_with(kind);
        });
        return loaded(tensors);
      };
      expect_same(
          only(after.optimizer_states()),
          only(before.optimizer_states()));
    }
  }
}

TEST(Convert, TorchFilesKeepTheirOptimizer) {
  const testing::TemporaryFolder folder;
  const fs::path from = golden("checkpoints/torch_optimizer.pt");
  convert({.input = from, .output = folder / "a", .to = Format::native});
  convert(
      {.input = folder / "a",
       .output = folder / "b/again.pt",
       .to = Format::torch});
  EXPECT_THAT(names_in(folder / "b"), ElementsAre("again.pt"));
  const Portable before = read(from);
  const Portable after = read(folder / "b/again.pt");
  expect_same(loaded(after.parameters), loaded(before.parameters));
  expect_same(loaded(after.optimizer_states), loaded(before.optimizer_states));
  EXPECT_EQ(after.groups.at(0).names, before.groups.at(0).names);
}

TEST(Convert, WeightsAloneAndInAnotherType) {
  const testing::TemporaryFolder folder;
  const ConvertReport report = convert(
      {.input = golden("checkpoints/deepspeed_z2_bf16_w2"),
       .weights_only = true,
       .output = folder / "a",
       .to = Format::native,
       .type = at::kBFloat16});
  EXPECT_FALSE(report.optimizer);
  const Portable got = read(folder / "a");
  EXPECT_THAT(got.optimizer_states, IsEmpty());
  const DeepSpeedCheckpoint saved(
      {.folder = golden("checkpoints/deepspeed_z2_bf16_w2")});
  expect_same(loaded(got.parameters), loaded(saved.weights()));
}

/// Row K3: checkpoints of Megatron-DeepSpeed, for Megatron and for Hugging
/// Face.
TEST(Convert, ModelsOfMegatronThatDeepSpeedSaved) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder / "run/global_step10");
  folder.write("run/latest", "global_step10");
  folder.write("run/latest_checkpointed_iteration.txt", "10");
  for (const char* rank : {"mp_rank_00", "mp_rank_01"}) {
    const PythonValue file = read_torch_file(
        golden("checkpoints/megatron_tp2/iter_0000010") / rank /
        "model_optim_rng.pt");
    write_torch_file(
        folder / fmt::format("run/global_step10/{}_model_states.pt", rank),
        PythonValue::dict_of(
            {{"module", file.at("model")},
             {"args", file.at("args")},
             {"checkpoint_version", file.at("checkpoint_version")},
             {"iteration", PythonValue::integer(10)},
             {"optimizer", PythonValue()}}));
  }
  const ConvertReport report = convert(
      {.input = folder / "run",
       .output = folder / "hf",
       .to = Format::huggingface});
  EXPECT_EQ(report.from, Format::deepspeed);
  expect_same(parameters(folder / "hf"), parameters(golden("models/gpt2")));
  convert(
      {.input = folder / "run",
       .output = folder / "megatron",
       .to = Format::megatron});
  EXPECT_EQ(read(folder / "megatron").steps, 10);
  expect_same(
      parameters(folder / "megatron"),
      parameters(golden("models/gpt2")));
}

TEST(Convert, UnknownModelsHaveNoOtherNames) {
  const testing::TemporaryFolder folder;
  for (const Format to : {Format::huggingface, Format::megatron}) {
    EXPECT_THAT(
        error_text<ConfigError>([&] {
          convert(
              {.input = golden("checkpoints/deepspeed_z2_bf16_w2"),
               .output = folder / "a",
               .to = to});
        }),
        HasSubstr("does not say which model it is"));
  }
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

TEST(Convert, OverwritesOnlyWhenToldAndOnlyCheckpoints) {
  const testing::TemporaryFolder folder;
  const auto run = [&](const char* output, bool overwrite) {
    convert(
        {.input = golden("models/gpt2"),
         .output = folder / output,
         .to = Format::native,
         .overwrite = overwrite});
  };
  run("a", false);
  EXPECT_THAT(
      error_text<CheckpointError>([&] { run("a", false); }),
      HasSubstr("something of that name already"));
  run("a", true);
  fs::create_directory(folder / "empty");
  run("empty", false);
  fs::create_directory(folder / "home");
  folder.write("home/letter", "dear");
  EXPECT_THAT(
      error_text<CheckpointError>([&] { run("home", true); }),
      HasSubstr("only a checkpoint can be overwritten"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a", "empty", "home"));
  EXPECT_THAT(
      error_text<ConfigError>([&] {
        convert(
            {.input = folder / "a/global_step0",
             .output = folder / "a",
             .to = Format::torch,
             .overwrite = true});
      }),
      HasSubstr("the output is the input, or holds it"));
}

/// An old result stays as it was when a conversion stops after any number of
/// tensors.
TEST(Convert, WhatIsStoppedLeavesNothing) {
  struct Stop {};
  for (const Format to :
       {Format::native,
        Format::deepspeed,
        Format::megatron,
        Format::huggingface,
        Format::torch}) {
    for (const int most : {0, 1, 7}) {
      const testing::TemporaryFolder folder;
      convert(
          {.input = golden("models/gpt2"),
           .output = folder / "old",
           .to = Format::torch});
      int calls = 0;
      EXPECT_THROW(
          convert(
              {.input = golden("models/gpt2"),
               .output = folder / "old",
               .to = to,
               .overwrite = true,
               .progress =
                   [&](std::uint64_t done, std::uint64_t total) {
                     EXPECT_LE(done, total);
                     if (calls++ == most) {
                       throw Stop();
                     }
                   }}),
          Stop);
      EXPECT_THAT(names_in(folder.path()), ElementsAre("old"));
      EXPECT_THAT(names_in(folder / "old"), ElementsAre("checkpoint.pt"));
    }
  }
}

TEST(Convert, FlagsThatChooseNothingAreRefused) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(
      error_text<ConfigError>([&] {
        convert(
            {.input = golden("models/gpt2"),
             .from = Format::huggingface,
             .tag = "global_step3",
             .output = folder / "a"});
      }),
      HasSubstr("a tag chooses nothing"));
  EXPECT_THAT(
      error_text<ConfigError>([&] {
        convert(
            {.input = golden("checkpoints/megatron_tp2"),
             .family = model::ModelFamily::bert,
             .output = folder / "a"});
      }),
      HasSubstr("another model (gpt2, not bert)"));
}

/// The largest growth of the process's memory while this object lives.
class PeakMemory {
 public:
  std::uint64_t bytes() const { return most_ - before_; }

 private:
  std::uint64_t before_ = monitor::anonymous_resident();
  std::atomic<std::uint64_t> most_ = before_;
  std::jthread watcher_{[this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      most_ = std::max<std::uint64_t>(most_, monitor::anonymous_resident());
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }};
};

/// Memory holds one tensor and fixed buffers for any size of model, also where
/// tensors are transposed, joined, cut, padded and of another type.
TEST(Convert, HoldsOneTensorAtATime) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer keeps freed memory";
#endif
  return_freed_memory(); // as `cairn convert` does
  constexpr std::uint64_t largest = 64 << 20;
  constexpr std::uint64_t buffers = 48 << 20;
  model::ModelDescription d =
      read_huggingface(golden("models/gpt2")).description;
  d.layers = 1;
  d.hidden = 1024;
  d.ffn = 16384; // two matrices of the largest size
  d.heads = d.key_value_heads = 16;
  d.head_size = 64;
  d.vocabulary = d.padded_vocabulary = 300;
  d.positions = 64;
  NamedTensors tensors;
  for (const model::ModelParameter& parameter : model::model_parameters(d)) {
    const at::Tensor one = at::full({}, 0.5F);
    tensors.emplace_back(
        parameter.name,
        LazyTensor{at::kFloat, parameter.shape, [one, parameter] {
                     return one.expand(parameter.shape);
                   }});
  }
  const testing::TemporaryFolder folder;
  fs::path input = folder / "first";
  write_huggingface(input, d, tensors);
  int n = 0;
  const auto step = [&](Format to, const ConvertOptions& more) {
    ConvertOptions options = more;
    options.input = input;
    options.to = to;
    options.output = folder / fmt::format("{}-{}", ++n, name_of(to));
    const PeakMemory peak;
    convert(options);
    EXPECT_LT(peak.bytes(), largest + buffers) << options.output;
    input = options.output;
  };
  step(Format::native, {.output = {}});
  step(Format::huggingface, {.output = {}});
  step(Format::megatron, {.output = {}, .split = {.tensor = 2}});
  step(Format::deepspeed, {.output = {}, .zero_stage = 2, .zero_ranks = 2});
  step(Format::native, {.output = {}, .type = at::kBFloat16});
  step(Format::huggingface, {.output = {}, .type = at::kFloat});
}

} // namespace
} // namespace cairn::checkpoints::convert_test
