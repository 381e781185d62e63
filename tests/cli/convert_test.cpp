// `cairn convert` and `cairn merge-mp-partitions` as a user calls them.

#include "cli/zero_tensors.h"
#include "support/command.h"
#include "support/names_in.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace cairn::testing::convert_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string golden = CAIRN_GOLDEN_DIR;

Result cairn(Words words) {
  words.insert(words.begin(), CAIRN_BINARY_DIR "/bin/cairn");
  return run(words);
}

Result convert(
    const fs::path& input,
    const fs::path& output,
    const std::string& to,
    const Words& more = {}) {
  Words words{
      "convert",
      "--input",
      input.string(),
      "--output",
      output.string(),
      "--to",
      to};
  words.insert(words.end(), more.begin(), more.end());
  return cairn(words);
}

TEST(ConvertCommand, GoesThroughAllFormatsAndBack) {
  const TemporaryFolder folder;
  const auto step = [&](const char* from,
                        const char* into,
                        const char* to,
                        const Words& more = {}) {
    const Result result = convert(folder / from, folder / into, to, more);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(
        result.out,
        AllOf(
            ContainsRegex("^[a-z]+ to [a-z]+: 28 tensors of gpt2 \\(2 layers, "
                          "hidden 64\\), 548 kB in .* of memory\nwrote /"),
            HasSubstr(into)));
  };
  const Result first = convert(golden + "/models/gpt2", folder / "1", "native");
  ASSERT_EQ(first.code, 0) << first.err;
  step("1", "2", "huggingface");
  step("2", "3", "megatron", {"--tensor-model-parallel-size", "2"});
  EXPECT_TRUE(fs::exists(folder / "3/release/mp_rank_01/model_optim_rng.pt"));
  step("3", "4", "deepspeed", {"--zero-stage", "1", "--zero-ranks", "2"});
  step("4", "5.pt", "torch");
  step("5.pt", "6", "native");
  step("6", "7", "huggingface");
  EXPECT_EQ(
      read_text(folder / "7/model.safetensors"),
      read_text(folder / "2/model.safetensors"));
  EXPECT_GT(fs::file_size(folder / "7/model.safetensors"), 500'000U);
}

/// Row K4, as in Megatron-DeepSpeed's README, except the model's sizes.
TEST(ConvertCommand, TakesTheCommandLineOfMergeMpPartitions) {
  const TemporaryFolder folder;
  const Words words{
      "merge-mp-partitions",
      "--model-type",
      "GPT",
      "--tensor-model-parallel-size",
      "2",
      "--pipeline-model-parallel-size",
      "1",
      "--target-pipeline-model-parallel-size",
      "2",
      "--tokenizer-type",
      "GPT2BPETokenizer",
      "--vocab-file",
      "gpt2-vocab.json",
      "--num-layers",
      "2",
      "--hidden-size",
      "64",
      "--num-attention-heads",
      "4",
      "--seq-length",
      "64",
      "--max-position-embeddings",
      "64",
      "--load",
      golden + "/checkpoints/megatron_tp2",
      "--save",
      (folder / "merged").string()};
  const Result result = cairn(words);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      names_in(folder / "merged/iter_0000010"),
      ElementsAre("mp_rank_00_000", "mp_rank_00_001"));

  // Splits it again, to the content of one rank's file.
  const Result split = cairn(
      {"merge-mp-partitions",
       "--load",
       (folder / "merged").string(),
       "--save",
       (folder / "split").string(),
       "--target-tensor-model-parallel-size",
       "4"});
  ASSERT_EQ(split.code, 0) << split.err;
  EXPECT_EQ(names_in(folder / "split/iter_0000010").size(), 4U);
  ASSERT_EQ(convert(folder / "split", folder / "a", "huggingface").code, 0);
  ASSERT_EQ(
      convert(golden + "/checkpoints/megatron_tp1", folder / "b", "huggingface")
          .code,
      0);
  EXPECT_EQ(
      read_text(folder / "a/model.safetensors"),
      read_text(folder / "b/model.safetensors"));

  const Result other = cairn(
      {"merge-mp-partitions",
       "--model-type",
       "BERT",
       "--load",
       golden + "/checkpoints/megatron_tp2",
       "--save",
       (folder / "c").string()});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("another model (gpt2, not bert)"));
}

TEST(ConvertCommand, KeepsTheOptimizerAndTellsWhatItCannot) {
  const TemporaryFolder folder;
  const Result result = convert(
      golden + "/checkpoints/deepspeed_z3_bf16_w2",
      folder / "run.pt",
      "torch");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("20 tensors, with optimizer states"));
  const Result unknown = convert(folder / "run.pt", folder / "a", "megatron");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("does not say which model it is"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("run.pt"));
}

TEST(ConvertCommand, BadUsageIsTwoAndBadFilesAreOne) {
  const TemporaryFolder folder;
  const std::string model = golden + "/models/gpt2";
  EXPECT_EQ(cairn({"convert", "--help"}).code, 0);
  EXPECT_EQ(cairn({"convert"}).code, 2);
  EXPECT_EQ(convert(model, folder / "a", "onnx").code, 2);
  EXPECT_EQ(
      convert(model, folder / "a", "torch", {"--zero-stage", "1"}).code,
      2);
  EXPECT_EQ(
      convert(model, folder / "a", "native", {"--dtype", "int8"}).code,
      2);
  EXPECT_EQ(
      convert(
          model,
          folder / "a",
          "megatron",
          {"--tensor-model-parallel-size", "3"})
          .code,
      2);
  EXPECT_EQ(convert(folder / "none", folder / "a", "torch").code, 1);
  EXPECT_EQ(convert(folder.path(), folder / "a", "torch").code, 1);
  const fs::path noise = folder.write("noise.pt", "PK\x03\x04 and no more");
  EXPECT_EQ(convert(noise, folder / "a", "native").code, 1);
  const fs::path torn = folder.write(
      "torn.safetensors",
      read_text(model + "/model.safetensors").substr(0, 100'000));
  EXPECT_EQ(convert(torn, folder / "a", "native").code, 1);
  folder.write("b", "a letter");
  const Result taken = convert(model, folder / "b", "native");
  EXPECT_EQ(taken.code, 1);
  EXPECT_THAT(taken.err, HasSubstr("something of that name already"));
  EXPECT_EQ(convert(model, folder / "b", "native", {"--overwrite"}).code, 1);
  EXPECT_THAT(
      names_in(folder.path()),
      ElementsAre("b", "noise.pt", "torn.safetensors"));
}

TEST(ConvertCommand, StoppedByControlCLeavesNothing) {
  const TemporaryFolder folder;
  const fs::path input = write_zero_tensors(folder);
  for (const char* to : {"native", "torch"}) {
    Command command(
        {CAIRN_BINARY_DIR "/bin/cairn",
         "convert",
         "--input",
         input.string(),
         "--output",
         (folder / "out").string(),
         "--to",
         to});
    const auto patience =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (names_in(folder.path()).size() == 1 &&
           std::chrono::steady_clock::now() < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    command.send(SIGINT);
    const Result result = command.finish();
    EXPECT_EQ(result.code, 130) << result.err;
    EXPECT_THAT(result.err, HasSubstr("interrupted; nothing was written"));
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(names_in(folder.path()), ElementsAre("zeros.safetensors"));
  }
}

} // namespace
} // namespace cairn::testing::convert_test
