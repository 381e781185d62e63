// The program as a user meets it: real processes, their output and exit codes.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>

namespace cairn::testing::program_test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Result cairn(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), CAIRN_BINARY_DIR "/bin/cairn");
  return run(arguments);
}

TEST(Program, WithoutArgumentsShowsItsCommands) {
  const Result result = cairn({});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("launch"));
  EXPECT_THAT(result.err, IsEmpty());
  // The script ./cairn shows this file without building anything.
  EXPECT_EQ(result.out, read_text(CAIRN_SOURCE_DIR "/share/help.txt"))
      << "renew it: build/bin/cairn --help > share/help.txt";
}

TEST(Program, OutputThatCannotBeWrittenIsAFailure) {
  const Result result =
      run({"/bin/sh", "-c", CAIRN_BINARY_DIR "/bin/cairn --help > /dev/full"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot write to standard output"));
}

/// An empty entry would mean the current folder, where anybody may have put a
/// library.
TEST(Program, LoadsNoLibraryFromTheCurrentFolder) {
  for (const char* const program : {"cairn", "cairn-torch"}) {
    const Result result =
        run({"readelf", "-d", CAIRN_BINARY_DIR "/bin/" + std::string(program)});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("RPATH")) << program;
    EXPECT_THAT(result.out, Not(HasSubstr("::"))) << program;
    EXPECT_THAT(result.out, Not(HasSubstr(":]"))) << program;
  }
}

TEST(Program, UnknownCommandIsRefusedWithTheNearest) {
  const Result result = cairn({"lauch"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(
      result.err,
      "cairn: there is no command \"lauch\"; did you mean \"launch\"?\n");
  EXPECT_THAT(result.out, IsEmpty());
}

TEST(Program, UnknownCommandWithoutANeighbourPointsToHelp) {
  const Result result = cairn({"zzzzzzzzzzzz"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("`cairn --help` lists them"));
}

TEST(Program, InfoComesFromTheLibtorchHalf) {
  const Result result = cairn({"info"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("libtorch     2.11.0"));
  EXPECT_THAT(result.out, HasSubstr("backends     local, gloo"));
  EXPECT_THAT(result.out, HasSubstr("SIMD"));
}

TEST(Program, InfoTakesNoArguments) {
  EXPECT_EQ(cairn({"info", "--everything"}).code, 2);
  EXPECT_EQ(cairn({"info", "--help"}).code, 0);
}

/// The example of the README, on real ranks.
Result launch_example(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {
      "launch",
      "--num_gpus",
      std::to_string(ranks),
      CAIRN_BINARY_DIR "/bin/all_reduce_example"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return cairn(words);
}

TEST(Example, RanksAddUpOverGloo) {
  const Result result = launch_example(2, {});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      HasSubstr("[1] rank 1 of 2 on cpu (gloo): sum of ranks + 1 is 3\n"));
}

TEST(Example, TrainsAtAnyStageByTheJsonAlone) {
  for (const char* stage : {"0", "1", "2", "3"}) {
    const testing::TemporaryFolder folder;
    const auto config = folder.write(
        "ds.json",
        std::string(R"({"train_micro_batch_size_per_gpu": 32,
            "steps_per_print": 50, "wall_clock_breakdown": true,
            "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
            "bf16": {"enabled": true}, "zero_optimization": {"stage": )") +
            stage + "}}");
    const Result result = cairn(
        {"launch",
         "--num_gpus",
         "2",
         CAIRN_BINARY_DIR "/bin/any_stage_example",
         "--deepspeed_config",
         config});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, ContainsRegex("epoch 2: loss 0\\.[01]")) << stage;
    EXPECT_THAT(result.err, HasSubstr("effective batch 64"));
    EXPECT_THAT(result.err, HasSubstr("precision: bf16 compute"));
    EXPECT_THAT(result.err, HasSubstr("step=50, skipped=0, lr=["));
    EXPECT_THAT(result.err, HasSubstr("RunningAvgSamplesPerSec="));
    EXPECT_THAT(result.err, HasSubstr("time (ms) | forward: "));
  }
}

TEST(Example, PlainLibtorchInParallel) {
  const Result result = cairn(
      {"launch",
       "--num_gpus",
       "2",
       CAIRN_BINARY_DIR "/bin/data_parallel_example"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("step 200: loss 0.0"));
}

TEST(Example, LayersSpreadOverProcesses) {
  const Result result = cairn(
      {"launch", "--num_gpus", "3", CAIRN_BINARY_DIR "/bin/pipeline_example"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      HasSubstr("stage 2  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5\n"));
  EXPECT_THAT(result.out, ContainsRegex("step 100: loss 0\\.[01]"));
}

TEST(Example, ModelsOfTheirPage) {
  const testing::TemporaryFolder folder;
  const Result one = testing::run(
      {"bash",
       "-ec",
       "cd '" + folder.path().string() +
           "'; ln -s '" CAIRN_GOLDEN_DIR "/models/gpt2' gpt2; "
           "exec '" CAIRN_BINARY_DIR "/bin/models_example'"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, ContainsRegex("stored gpt2: loss 6\\."));
  EXPECT_THAT(one.out, ContainsRegex("described gpt: loss [0-8]\\."));
  const Result two = cairn(
      {"launch", "--num_gpus", "2", CAIRN_BINARY_DIR "/bin/models_example"});
  EXPECT_EQ(two.code, 0) << two.err;
  const auto loss = [](const std::string& out) {
    const auto at = out.find(": loss ");
    return out.substr(at, out.find('\n', at) - at);
  };
  EXPECT_THAT(two.out, HasSubstr("[0] own net, shared by 2: loss "));
  EXPECT_EQ(loss(one.out), loss(two.out));
}

TEST(Example, ResNetLearnsPicturesInCifar10sFormat) {
  for (const char* stage : {"0", "3"}) {
    const testing::TemporaryFolder folder;
    const auto config = folder.write(
        "ds.json",
        std::string(R"({"train_batch_size": 32,
            "optimizer": {"type": "Adam", "params": {"lr": 0.003}},
            "zero_optimization": {"stage": )") +
            stage + "}}");
    const Result result = cairn(
        {"launch",
         "--num_gpus",
         "2",
         CAIRN_BINARY_DIR "/bin/resnet18_cifar10_example",
         "--deepspeed_config",
         config,
         "--data",
         (folder.path() / "pictures").string(),
         "--synthetic",
         "200",
         "--width",
         "4",
         "--epochs",
         "3",
         "--log_every",
         "4"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(
        result.out,
        AllOf(
            HasSubstr("[1] Starting training, I'm rank 1 on cpu"),
            ContainsRegex("\\[0\\] Epoch: 1, Step: 4, Loss: [0-9.]+\n"),
            Not(HasSubstr("[1] Epoch"))));
    EXPECT_THAT(
        result.out,
        ContainsRegex("epoch 0: loss [0-9.]+, accuracy [0-9.]+ %; test loss"));
    EXPECT_THAT(
        result.out,
        ContainsRegex(
            "epoch 2: loss [0-9.]+, accuracy ([89][0-9]|100)\\.[0-9]"))
        << "does not learn";
  }
}

TEST(Example, ResNetSaysWhichPicturesAreMissing) {
  const testing::TemporaryFolder folder;
  const auto config = folder.write("ds.json", "{}");
  const Result result = run(
      {CAIRN_BINARY_DIR "/bin/resnet18_cifar10_example",
       "--deepspeed_config",
       config,
       "--data",
       (folder.path() / "nothing").string()});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("nothing"));
}

TEST(Example, AKilledRankEndsTheJobWithItsNameAndCode) {
  const Result result = launch_example(3, {"--kill-rank", "1"});
  EXPECT_EQ(result.code, 128 + SIGKILL);
  EXPECT_THAT(result.err, ContainsRegex("rank 1 .* was killed by SIGKILL"));
  EXPECT_LT(result.took, std::chrono::seconds(10));
}

TEST(Example, ASleepingRankIsNamedByTheFlightRecorder) {
  ::setenv("CAIRN_COLLECTIVE_TIMEOUT", "1", 1);
  const Result result = launch_example(2, {"--sleep-rank", "1"});
  ::unsetenv("CAIRN_COLLECTIVE_TIMEOUT");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(
      result.err,
      HasSubstr("rank 1 has not reached all_reduce #2 of group \"world\" "
                "(called by rank 0 at all_reduce.cpp:"));
}

} // namespace
} // namespace cairn::testing::program_test
