#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

// `cairn launch --share_gpu … pretrain`, from the command line to the loss.

namespace cairn::cli::shared_gpu_gpu_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Result;
using testing::Words;

/// The program cairn with cairn-cuda beside it, where the build or a bundle of
/// programs has them.
std::optional<std::string> cairn_with_gpu() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& folder : {here, here.parent_path() / "bin"}) {
    if (fs::exists(folder / "cairn") && fs::exists(folder / "cairn-cuda")) {
      return (folder / "cairn").string();
    }
  }
  return std::nullopt;
}

/// Trains a tiny GPT and returns its losses; `how` is what stands in front of
/// `pretrain`.
std::vector<double> losses(
    const Words& how,
    const Words& more,
    const testing::TemporaryFolder& folder,
    Result& result) {
  const std::string log = (folder / "log.jsonl").string();
  fs::remove(log);
  Words words = how;
  for (const char* word :
       {"pretrain",
        "gpt",
        "--num-layers",
        "2",
        "--hidden-size",
        "32",
        "--num-attention-heads",
        "2",
        "--seq-length",
        "32",
        "--vocab-size",
        "96",
        "--micro-batch-size",
        "2",
        "--global-batch-size",
        "4",
        "--train-iters",
        "4",
        "--lr",
        "1e-3",
        "--attention-dropout",
        "0",
        "--hidden-dropout",
        "0",
        "--mock-data",
        "--eval-iters",
        "0",
        "--log-interval",
        "1",
        "--log-jsonl"}) {
    words.emplace_back(word);
  }
  words.push_back(log);
  words.insert(words.end(), more.begin(), more.end());
  result = testing::Command(words, {{"CUDA_VISIBLE_DEVICES", "0"}}).finish();
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  std::vector<double> found;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object.contains("lm loss")) {
      found.push_back(object["lm loss"]);
    }
  }
  return found;
}

TEST(SharedGpu, PretrainsAsOneRankDoes) {
  const auto cairn = cairn_with_gpu();
  if (!cairn) {
    GTEST_SKIP() << "cairn and cairn-cuda are not beside this program";
  }
  const testing::TemporaryFolder folder;
  Result result;
  const std::vector<double> wanted = losses({*cairn}, {}, folder, result);
  ASSERT_EQ(wanted.size(), 4U) << result.out << result.err;
  const Words shared{*cairn, "launch", "--share_gpu", "--num_gpus", "2"};
  for (const Words& layout :
       {Words{"--zero-stage", "3"},
        Words{"--tensor-model-parallel-size", "2", "--sequence-parallel"},
        Words{"--pipeline-model-parallel-size", "2"}}) {
    SCOPED_TRACE(layout.front());
    const std::vector<double> got = losses(shared, layout, folder, result);
    EXPECT_THAT(
        result.out + result.err,
        AllOf(
            HasSubstr("the ranks share one GPU to try out a layout"),
            HasSubstr("the training is done, after iteration 4")));
    ASSERT_EQ(got.size(), wanted.size()) << result.out << result.err;
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[i], 1e-3) << "step " << i;
    }
  }
}

} // namespace
} // namespace cairn::cli::shared_gpu_gpu_test
