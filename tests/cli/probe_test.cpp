#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

namespace cairn::cli::probe_test {
namespace {

using ::testing::HasSubstr;
using testing::Result;
using testing::TemporaryFolder;
using testing::Words;

namespace fs = std::filesystem;

const std::string gpt2 = CAIRN_GOLDEN_DIR "/models/gpt2";
const std::string batch = gpt2 + "/io.safetensors";

Result probe(const Words& arguments) {
  Words words{CAIRN_BINARY_DIR "/bin/cairn", "probe"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return testing::run(words);
}

TEST(ProbeCommand, TakesFlagsInBothSpellings) {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  const Result result = probe(
      {"--load=" + gpt2,
       "--input",
       batch,
       "--output=" + output,
       "--no_logits",
       "--bf16"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("136960 parameters, 1 rank\nloss"));
  EXPECT_THAT(result.out, HasSubstr("wrote " + output + ", 31 tensors\n"));
  EXPECT_LT(fs::file_size(output), 10'000U);
}

TEST(ProbeCommand, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  const Words whole{"--load", gpt2, "--input", batch, "--output", output};
  const auto refusal = [&](Words words, const Words& more, int code = 2) {
    words.insert(words.end(), more.begin(), more.end());
    const Result result = probe(words);
    EXPECT_EQ(result.code, code) << result.out << result.err;
    return result.err;
  };
  EXPECT_THAT(
      refusal({"--load", gpt2}, {"--input", batch}),
      HasSubstr("--output: is required; see `cairn probe --help`"));
  EXPECT_THAT(refusal(whole, {"--load", gpt2}), HasSubstr("is given twice"));
  EXPECT_THAT(
      refusal({"--load", gpt2, "--input"}, {}),
      HasSubstr("--input: has no value"));
  EXPECT_THAT(
      refusal(whole, {"--tensor-model-paralel-size", "2"}),
      HasSubstr("did you mean --tensor-model-parallel-size?"));
  EXPECT_THAT(
      refusal({"--load", gpt2, "--inptu", batch}, {"--output", output}),
      HasSubstr("--inptu: unknown flag; did you mean --input?"));
  EXPECT_THAT(
      refusal(whole, {"--tain"}),
      HasSubstr("--tain: unknown flag; did you mean --train?"));
  EXPECT_THAT(
      refusal(whole, {"--nothing-like-it=3"}),
      HasSubstr("--nothing-like-it: unknown flag; see `cairn probe --help`"));
  EXPECT_THAT(
      refusal(whole, {"--tensor-model-parallel-size", "2"}),
      HasSubstr("world size 1 is not a multiple of tensor 2"));
  EXPECT_THAT(
      refusal(whole, {"--ckpt-step", "first"}),
      HasSubstr("\"first\" is not the number of a step"));
  EXPECT_THAT(
      refusal(whole, {"--ckpt-step", "3"}),
      HasSubstr("a tag chooses nothing in a checkpoint of format "
                "\"huggingface\""));
  EXPECT_THAT(
      refusal(whole, {"--config", (folder / "absent.json").string()}),
      HasSubstr("absent.json"));
  EXPECT_THAT(
      refusal(
          {"--load", gpt2, "--input", gpt2 + "/config.json"},
          {"--output", output},
          1),
      HasSubstr("config.json"));
  EXPECT_FALSE(fs::exists(output));
}

TEST(ProbeCommand, LeavesNothingRunningAfterCtrlC) {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  const std::string input = folder / "fifo"; // so that it waits
  ASSERT_EQ(::mkfifo(input.c_str(), 0600), 0);
  testing::Command command(
      {CAIRN_BINARY_DIR "/bin/cairn",
       "launch",
       "--num_gpus",
       "2",
       "probe",
       "--load",
       gpt2,
       "--input",
       input,
       "--output",
       output},
      {},
      testing::Command::Streams::terminal);
  command.wait_for("starting 2 of 2 ranks here");
  command.type("\x03");
  EXPECT_EQ(command.finish().code, 128 + SIGINT) << command.out();
  command.expect_nothing_left();
  EXPECT_FALSE(fs::exists(output));
}

TEST(ProbeCommand, HelpsAndIsListed) {
  const Result help = probe({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("--input FILE"));
  EXPECT_THAT(
      testing::run({CAIRN_BINARY_DIR "/bin/cairn", "--help"}).out,
      HasSubstr("probe"));
}

} // namespace
} // namespace cairn::cli::probe_test
