#include "cli/program/command.h"
#include "base/internal/edit_distance.h"
#include "config/internal/flag.h"
#include "support/error_text.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace cairn::cli::command_test {
namespace {

using ::testing::HasSubstr;

class ConfigCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "cairn-config-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text) const {
    const std::string path = folder_ + "/ds.json";
    std::ofstream(path) << text;
    return path;
  }

  std::string folder_;
};

struct Output {
  int code = -1;
  std::string out;
  std::string err;
};

Output run(const Arguments& arguments) {
  Output output;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  try {
    output.code = run_config(arguments);
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    ::testing::internal::GetCapturedStderr();
    throw;
  }
  std::fflush(stdout);
  output.out = ::testing::internal::GetCapturedStdout();
  output.err = ::testing::internal::GetCapturedStderr();
  return output;
}

/// Checks as `cairn pretrain` does before it starts.
TEST_F(ConfigCommand, CheckKnowsWhatAModelCannotDo) {
  const std::vector<std::string> sizes{
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
      "--micro-batch-size",
      "1",
      "--vocab-size",
      "512",
      "--context-parallel-size",
      "2",
      "--world-size",
      "2"};
  const auto words_of = [&](const char* kind) {
    std::vector<std::string> words{"check", kind};
    words.insert(words.end(), sizes.begin(), sizes.end());
    return words;
  };
  EXPECT_EQ(run(words_of("gpt")).code, exit_ok);
  EXPECT_THAT(
      error_text([&] { run(words_of("bert")); }),
      HasSubstr("left-to-right models only"));
}

TEST_F(ConfigCommand, CheckPrintsWhatIsResolved) {
  const Output output = run(
      {"check",
       file("{\n  train_batch_size: 32,\n  zero_optimization: {stage: "
            "2, cpu_offload: true}\n}"),
       "--world-size",
       "4",
       "--micro-batch-size",
       "2"});
  EXPECT_EQ(output.code, exit_ok);
  const auto json = nlohmann::json::parse(output.out);
  EXPECT_EQ(json["world_size"], 4);
  EXPECT_EQ(json["deepspeed"]["gradient_accumulation_steps"], 4);
  EXPECT_EQ(
      json["deepspeed"]["zero_optimization"]["offload_optimizer"]["device"],
      "cpu");
  EXPECT_EQ(json["flags"]["--micro-batch-size"], 2);
  EXPECT_EQ(
      output.err,
      "warning: " + folder_ +
          "/ds.json:3:33 (zero_optimization.cpu_offload) is deprecated; use "
          "offload_optimizer\n"
          "note: cairn::initialize trains by the JSON keys and names those "
          "that it does not act on; cairn pretrain refuses flags that it does "
          "not act on\n"
          "effective batch 32 = 2 per rank x 4 accumulation x 4 "
          "data-parallel\n");
}

TEST_F(ConfigCommand, CheckRefusesATypo) {
  const std::string path =
      file("{\n  \"train_batch_size\": 8,\n  \"zero_optimization\": {\n    "
           "\"stge\": 2\n  }\n}\n");
  EXPECT_EQ(
      error_text([&] {
        run({"check", path});
      }),
      path +
          ":4:5 (zero_optimization.stge): unknown key; did you mean "
          "\"stage\"?");
}

// The command takes flags near --world-size for a slip of it.
TEST_F(ConfigCommand, NoFlagIsNearWorldSize) {
  for (const std::string_view name : config::flag_names()) {
    EXPECT_GT(edit_distance(name, "--world-size"), 2U) << name;
  }
}

TEST_F(ConfigCommand, CheckBlamesTheLineOfTheWrongBatchKey) {
  const std::string path =
      file("{train_batch_size: 8,\ntrain_micro_batch_size_per_gpu: 0}");
  EXPECT_TRUE(error_text([&] {
                run({"check", path});
              })
                  .starts_with(
                      path +
                      ":2:1 (train_micro_batch_size_per_gpu): "
                      "train_micro_batch_size_per_gpu is 0, it has to be "
                      "greater than 0"));
}

TEST_F(ConfigCommand, CheckTakesFlagsAlone) {
  EXPECT_EQ(run({"check", "--micro-batch-size=2"}).code, exit_ok);
}

TEST_F(ConfigCommand, CheckOfAModelShowsItOnItsRanks) {
  const Arguments gpt3{
      "check",
      "gpt",
      file("{\"zero_optimization\": {\"stage\": 1}}"),
      "--world-size=1024",
      "--num-layers=96",
      "--hidden-size=12288",
      "--num-attention-heads=96",
      "--seq-length=2048",
      "--vocab-size=50257",
      "--tensor-model-parallel-size=8",
      "--pipeline-model-parallel-size=16",
      "--micro-batch-size=1",
      "--global-batch-size=1536",
      "--rampup-batch-size",
      "16",
      "16",
      "5859375",
      "--train-samples=146484375",
      "--lr=6e-5",
      "--fp16"};
  EXPECT_EQ(
      run(gpt3).out,
      "model        96 layers, hidden 12288, 96 heads, sequence 2048\n"
      "vocabulary   50257, padded to 51200\n"
      "parameters   174615846912 (174.62 B)\n"
      "mesh         1024 ranks = 8 data x 8 tensor x 16 pipeline\n"
      "stages       16 of 6 layers\n"
      "batch        1536 = 1 per rank x 192 accumulation x 8 "
      "data-parallel\n"
      "ramp-up      from 16 by 16 in 95 steps over 5859375 samples\n"
      "length       146484375 samples, 300.00 B tokens\n"
      "budget       1.72 tokens for each parameter; 20 (Chinchilla) are 3.49 "
      "T, 1 % of them 34.92 B\n"
      "partition    ZeRO stage 1: optimizer partitioned\n"
      "of a rank    1.46 B parameters at most (stage 0); model states 8.05 "
      "GB\n");
  Arguments more_stages = gpt3;
  more_stages.insert(
      more_stages.end(),
      {"--num-layers=8", "--pipeline-model-parallel-size=8"});
  EXPECT_EQ(run(more_stages).code, exit_ok);
  more_stages.push_back("--encoder-num-layers=8");
  more_stages.push_back("--hidden-size=100");
  EXPECT_NE(error_text([&] { run(more_stages); }), "");
}

/// Each of four ranks has two of eight experts, and shares their states with
/// one other rank.
TEST_F(ConfigCommand, CheckOfAModelWithExperts) {
  const std::string out = run({"check",
                               "gpt",
                               file("{zero_optimization: {stage: 1}}"),
                               "--world-size=8",
                               "--num-layers=4",
                               "--hidden-size=64",
                               "--num-attention-heads=8",
                               "--seq-length=32",
                               "--vocab-size=1000",
                               "--micro-batch-size=1",
                               "--lr=1e-3",
                               "--num-experts=8",
                               "--topk=2",
                               "--expert-model-parallel-size=4"})
                              .out;
  for (const char* part :
       {"731904 (731904), a token passes through 334848 (334848)\n",
        "8 data x 1 tensor x 1 pipeline, 4 of them sharing out experts\n",
        "334848 parameters at most (stage 0); model states 3.41 MB\n"}) {
    EXPECT_NE(out.find(part), std::string::npos) << part << out;
  }
}

TEST_F(ConfigCommand, CheckShowsElasticBatchesAndCurricula) {
  const std::string settings = file(
      "{elasticity: {enabled: true, max_train_batch_size: 100, "
      "micro_batch_sizes: [3, 5], version: 0.1},\n"
      "curriculum_learning: {enabled: true, min_difficulty: 8, "
      "max_difficulty: 32, schedule_type: \"fixed_linear\", schedule_config: "
      "{total_curriculum_step: 10, difficulty_step: 8}}}");
  const Output alone = run({"check", settings, "--world-size", "6"});
  EXPECT_TRUE(alone.err.ends_with(
      "effective batch 90 = 5 per rank x 3 accumulation x 6 data-parallel\n"
      "elastic batch 90 at 1, 2, 3, 5, 6, 9, 10, 15, 18, 30 data-parallel "
      "ranks\n"
      "curriculum 8 to 32 tokens over 10 steps (fixed_linear)\n"))
      << alone.err;
  const Output model = run(
      {"check",
       "gpt",
       settings,
       "--world-size=6",
       "--num-layers=2",
       "--hidden-size=64",
       "--num-attention-heads=2",
       "--seq-length=32",
       "--vocab-size=1000",
       "--train-iters=10",
       "--lr=1e-3"});
  EXPECT_NE(
      model.out.find(
          "\nelastic      90 at 1, 2, 3, 5, 6, 9, 10, 15, 18, 30 "
          "data-parallel ranks\n"
          "length       10 iterations, less than 28800 tokens\n"
          "budget       0.17 tokens for each parameter; 20 (Chinchilla) are "
          "3.35 M, 1 % of them 33536\n"
          "curriculum   8 to 32 tokens over 10 steps (fixed_linear)\n"),
      std::string::npos)
      << model.out;
}

TEST_F(ConfigCommand, StatesRestWhereTheyAreOffloadedTo) {
  const auto states = [&](const std::string& json) {
    const std::string out = run({"check",
                                 "gpt",
                                 file(json),
                                 "--world-size=4",
                                 "--num-layers=2",
                                 "--hidden-size=64",
                                 "--num-attention-heads=2",
                                 "--seq-length=32",
                                 "--vocab-size=1000",
                                 "--micro-batch-size=1",
                                 "--lr=1e-3"})
                                .out;
    return out.substr(out.find("model states"));
  };
  // 167,680 parameters
  EXPECT_EQ(states("{}"), "model states 2.68 MB\n"); // 16 bytes each in fp32
  EXPECT_EQ(states("{bf16: {enabled: true}}"), "model states 3.02 MB\n");
  EXPECT_EQ(
      states("{fp16: {enabled: true}, zero_optimization: {stage: 3}}"),
      "model states 671 kB\n");
  EXPECT_EQ(
      states("{fp16: {enabled: true}, zero_optimization: {stage: 2, "
             "offload_optimizer: {device: \"cpu\"}}}"),
      "model states 419 kB, 503 kB in host memory\n");
  EXPECT_EQ(
      states("{optimizer: {type: \"Muon\", params: {lr: 0.001}}}"),
      "model states not counted for this optimizer\n");
}

TEST_F(ConfigCommand, ListsAndExplains) {
  EXPECT_NE(
      run({"keys"}).out.find("zero_optimization.stage"),
      std::string::npos);
  EXPECT_NE(run({"flags"}).out.find("\nlogging:\n"), std::string::npos);
  EXPECT_NE(run({"docs"}).out.find("# Configuration"), std::string::npos);
  EXPECT_NE(
      run({"explain", "stage", "--lr"}).out.find("\n--lr X\n"),
      std::string::npos);
  EXPECT_NE(run({"--help"}).out.find("cairn config check"), std::string::npos);
  EXPECT_NE(
      run({"check", "--help"}).out.find("mixed precision:"),
      std::string::npos);
  EXPECT_EQ(run({"explain", "--help"}).out, run({"--help"}).out);
}

TEST_F(ConfigCommand, BadUsage) {
  EXPECT_EQ(
      error_text([] { run({"chekc"}); }),
      "\"chekc\" is no subcommand of config; see `cairn config --help`");
  EXPECT_NE(error_text([] { run({}); }), "");
  EXPECT_NE(error_text([] { run({"check"}); }), "");
  EXPECT_NE(error_text([] { run({"explain"}); }), "");
  EXPECT_NE(error_text([] { run({"keys", "x"}); }), "");
  EXPECT_EQ(
      error_text([] {
        run({"check", "--world-size", "zero"});
      }),
      "--world-size: \"zero\" is no number of ranks");
  EXPECT_NE(error_text([] { run({"check", "--world-size"}); }), "");
  EXPECT_EQ(
      error_text([] {
        run({"check", "--wold-size=2"});
      }),
      "--wold-size: unknown flag; did you mean --world-size?");
}

} // namespace
} // namespace cairn::cli::command_test
