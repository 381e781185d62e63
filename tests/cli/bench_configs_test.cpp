// bench/configs/run.py, with models that are small enough for a test.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <string>

namespace cairn::testing::bench_configs_test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class BenchConfigs : public ::testing::Test {
 protected:
  /// `line` begins with the program that runs it, such as `env`.
  Result run_bench(const Words& more, Words line = {}) const {
    const Words small{
        "python3",
        CAIRN_SOURCE_DIR "/bench/configs/run.py",
        "--build",
        CAIRN_BINARY_DIR,
        "--out",
        (folder_ / "out").string(),
        "--ranks",
        "2",
        "--block",
        "16",
        "--batch",
        "8",
        "--steps",
        "1",
        "--warm-up",
        "1"};
    line.insert(line.end(), small.begin(), small.end());
    line.insert(line.end(), more.begin(), more.end());
    Result result = run(line);
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    return result;
  }
  nlohmann::json rows(const std::string& model) const {
    return nlohmann::json::parse(
        read_text(folder_ / ("out/" + model + ".json")));
  }

  TemporaryFolder folder_;
};

TEST_F(BenchConfigs, TrainGptLiteInEveryConfiguration) {
  const Result result =
      run_bench({"--model", "gpt-lite", "--layers", "2", "--width", "16"});
  EXPECT_EQ(result.out, read_text(folder_ / "out/table.md"));
  EXPECT_THAT(
      result.out,
      HasSubstr("| configuration | ranks | samples/s | memory, mean | memory, "
                "most |"));
  double loss = 0;
  for (const auto& row : rows("gpt-lite")) {
    const std::string name = row["config"];
    EXPECT_THAT(
        result.out,
        ContainsRegex("\n\\| " + name + " \\| [12] \\| [0-9.,e+]+ \\| "));
    EXPECT_GT(row["samples_per_second"], 0) << name;
    EXPECT_GT(row["memory_max"], 1e6) << name;
    EXPECT_GE(row["memory_max"], row["memory_average"]) << name;
    EXPECT_EQ(row["parameters"], rows("gpt-lite")[0]["parameters"]) << name;
    EXPECT_NEAR(row["loss"], 3.5, 1) << name << ": about ln(vocabulary)";
    loss = row["loss"];
  }
  EXPECT_GT(loss, 0);
  EXPECT_EQ(rows("gpt-lite").size(), 8U);
}

TEST_F(BenchConfigs, TrainResNetToo) {
  const Result result =
      run_bench({"--model", "resnet18", "--channels", "4", "zero3", "fp16"});
  EXPECT_THAT(
      result.out,
      AllOf(
          HasSubstr("resnet18: 0.0 million parameters, 4 channels"),
          HasSubstr("\n| zero3 | 2 | "),
          HasSubstr("\n| fp16 | 2 | ")));
}

/// A program that answers as nvidia-smi does, on a machine with two GPUs, of
/// which one rank has the first.
TEST_F(BenchConfigs, TellWhatNvidiaSmiReads) {
  folder_.write_script(
      "nvidia-smi",
      "#!/bin/sh\nprintf '1234, 50\\n77, [N/A]\\n'\n");
  const Result result = run_bench(
      {"--model", "gpt-lite", "--layers", "1", "--width", "16", "serial"},
      {"env", "PATH=" + folder_.path().string() + ":" + ::getenv("PATH")});
  EXPECT_THAT(
      result.out,
      AllOf(
          HasSubstr(" | nvidia-smi: memory | GPU busy |"),
          HasSubstr(" | 1.29 GB | 50 % |\n")));
}

/// The GPU's load is of the timed steps, its memory of all the time.
TEST_F(BenchConfigs, CountReadingsOfTheTimedSteps) {
  const auto summary = [](int since) {
    return run({"python3",
                "-c",
                "import sys; sys.path.insert(0, sys.argv[1]); import run\n"
                "gpus = run.Gpus(1)\n"
                "nan = float('nan')\n"
                "gpus.readings = [(1, 30, 0), (2, 10, 80), (3, nan, nan), "
                "(4, 20, 60)]\n"
                "print(gpus.summary(int(sys.argv[2])))",
                CAIRN_SOURCE_DIR "/bench/configs",
                std::to_string(since)})
        .out;
  };
  EXPECT_EQ(summary(2), "{'gpu_memory_max': 31457280, 'gpu_busy': 70.0}\n");
  EXPECT_EQ(
      summary(5),
      "{'gpu_memory_max': 31457280, 'gpu_busy': 46.666666666666664}\n")
      << "too short a run to be seen";
}

TEST_F(BenchConfigs, FindTheLargestModelThatFits) {
  const Result result = run_bench(
      {"--model",
       "gpt-lite",
       "--layers",
       "1",
       "--width",
       "512",
       "--memory-limit",
       "400MB",
       "serial"});
  EXPECT_THAT(
      result.out,
      ContainsRegex(" largest model in 400 MB a rank \\|\n.*\n\\| serial .* "
                    "million, [0-9]+ wide \\|\n"));
  const auto row = rows("gpt-lite").at(0);
  const double width = row["largest"]["width"];
  // A block's fp32 parameters, with gradients and two moments.
  const auto bytes = [](double wide) { return 12 * wide * wide * 16; };
  EXPECT_GE(width, 64);
  EXPECT_LT(bytes(width), 400e6) << "more than the limit has room for";
  EXPECT_GT(bytes(width + 128), 400e6 - 350e6);
}

} // namespace
} // namespace cairn::testing::bench_configs_test
