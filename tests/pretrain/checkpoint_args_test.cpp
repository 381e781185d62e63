#include "pretrain/internal/checkpoint_args.h"

#include "checkpoints/same_tensors.h"
#include "config/internal/stored_flags.h"
#include "pretrain/internal/megatron_reading.h"
#include "pretrain/plan/checkpoint_flags.h"
#include "support/temporary_folder.h"

#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/torch_file.h>
#include <cairn/config/config.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::pretrain::checkpoint_args_test {
namespace {

namespace fs = std::filesystem;
using checkpoints::PythonValue;
using ::testing::Contains;
using ::testing::Not;

using Words = std::vector<std::string>;

model::ModelDescription small_model() {
  return {
      .layers = 2,
      .hidden = 16,
      .heads = 4,
      .key_value_heads = 4,
      .head_size = 4,
      .ffn = 64,
      .vocabulary = 48,
      .padded_vocabulary = 48,
      .positions = 32,
      .position = model::PositionKind::rotary,
      .rope_theta = 500000,
      .activation = model::ActivationKind::gelu_tanh};
}

/// Writes a checkpoint as Megatron-DeepSpeed's args have it, which lack
/// rotary_base, with some more args.
void write_checkpoint(
    const fs::path& folder,
    const std::vector<PythonValue::Member>& more = {}) {
  const model::ModelDescription d = small_model();
  checkpoints::write_megatron(folder, d, checkpoints::numbered(d), {});
  const fs::path path = folder / "release/mp_rank_00/model_optim_rng.pt";
  const PythonValue file = checkpoints::read_torch_file(path);
  std::vector<PythonValue::Member> args = more;
  for (const auto& [key, value] : file.at("args").state().entries()) {
    if (key.text() != "rotary_base") {
      args.emplace_back(key.text(), value);
    }
  }
  checkpoints::write_torch_file(
      path,
      PythonValue::dict_of(
          {{"args", PythonValue::object("argparse", "Namespace", args)},
           {"checkpoint_version", PythonValue::real(3)},
           {"model", file.at("model")}}));
}

TEST(CheckpointArgs, HaveTheRotaryBaseOfTheCheckpoint) {
  const testing::TemporaryFolder folder;
  write_checkpoint(folder.path());
  const CheckpointArgs args = with_checkpoint_args(
      Kind::gpt,
      {"--load", folder.path().string(), "--use-checkpoint-args"});
  EXPECT_EQ(config::said_flags(args.words).model.rotary_base, 500000);
  // Flags that do not say it leave what the checkpoint says.
  const checkpoints::MegatronCheckpoint read = checkpoints::read_megatron(
      folder.path(),
      megatron_reading(config::Flags().model));
  EXPECT_EQ(read.description.rope_theta, 500000);
}

TEST(CheckpointArgs, NameNoFilesOfFlags) {
  const testing::TemporaryFolder folder;
  const std::string hostile =
      "@" + folder.write("hostile", "--save /elsewhere\n");
  const std::string own = "@" + folder.write("own", "--save @mine\n");
  const fs::path checkpoint = folder / "checkpoint";
  write_checkpoint(
      checkpoint,
      {{"vocab_file", PythonValue::text(hostile)},
       {"merge_file", PythonValue::text("-x")}});
  const CheckpointArgs args = with_checkpoint_args(
      Kind::gpt,
      {own, "--load", checkpoint.string(), "--use-checkpoint-args"});
  const config::Flags flags =
      config::Config::resolve({.flags = args.words}).flags;
  EXPECT_EQ(flags.tokenizer.vocab_file, hostile);
  EXPECT_EQ(flags.tokenizer.merge_file, "-x");
  EXPECT_EQ(flags.checkpointing.save, "@mine");
}

Words words_of(const checkpoints::Portable& stored, const Words& given) {
  return config::with_stored_flags(
             given,
             flags_of_checkpoint(stored, {.layout = true}),
             "there")
      .words;
}

// A run of `cairn pretrain` saves the flags that it was given.
TEST(CheckpointArgs, HaveTheLayoutOfARunWithoutFlagsForIt) {
  checkpoints::Portable stored;
  stored.description = small_model();
  const Words given{
      "--tensor-model-parallel-size",
      "2",
      "--num-layers-per-virtual-pipeline-stage",
      "1",
      "--tokenizer-type",
      "CharTokenizer"};
  EXPECT_THAT(words_of(stored, given), Contains(given.front()));
  stored.flags =
      PythonValue::dict_of({{"--num-layers", PythonValue::integer(2)}});
  const Words words = words_of(stored, given);
  EXPECT_THAT(words, Not(Contains("--tensor-model-parallel-size")));
  EXPECT_THAT(words, Not(Contains("--num-layers-per-virtual-pipeline-stage")));
  EXPECT_THAT(words, Not(Contains("--tokenizer-type")));
  // The JSON may have said how many stages there are.
  stored.config = PythonValue::dict_of(
      {{"pipeline",
        PythonValue::dict_of({{"stages", PythonValue::integer(2)}})}});
  EXPECT_THAT(
      words_of(stored, given),
      Contains("--pipeline-model-parallel-size=2"));
}

TEST(CheckpointArgs, HaveMegatronsVirtualStages) {
  checkpoints::Portable stored;
  stored.description = small_model();
  stored.megatron_args = PythonValue::object(
      "argparse",
      "Namespace",
      {{"tensor_model_parallel_size", PythonValue::integer(1)},
       {"pipeline_model_parallel_size", PythonValue::integer(2)},
       {"moe_expert_parallel_size", PythonValue::integer(2)},
       {"num_layers_per_virtual_pipeline_stage", PythonValue::integer(1)},
       {"virtual_pipeline_model_parallel_size", PythonValue::integer(4)}});
  const Words words =
      words_of(stored, {"--num-layers-per-virtual-pipeline-stage", "2"});
  EXPECT_THAT(words, Contains("--num-virtual-stages-per-pipeline-rank=4"));
  EXPECT_THAT(words, Contains("--pipeline-model-parallel-size=2"));
  EXPECT_THAT(words, Contains("--expert-model-parallel-size=2"));
  EXPECT_THAT(words, Not(Contains("--num-layers-per-virtual-pipeline-stage")));
}

} // namespace
} // namespace cairn::pretrain::checkpoint_args_test
