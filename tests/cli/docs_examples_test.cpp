// The commands of docs/converting.md and docs/inspecting-checkpoints.md, run as
// they stand there, in a folder that has what they name.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

/// What stands between "```KIND" and "```".
std::vector<std::string> blocks_of(
    const std::string& page,
    const std::string& kind) {
  std::istringstream text(
      read_text(fs::path(CAIRN_SOURCE_DIR) / "docs" / page));
  std::vector<std::string> blocks;
  bool inside = false;
  bool wanted = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      wanted = inside && line == "```" + kind;
      if (wanted) {
        blocks.emplace_back();
      }
    } else if (wanted) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

/// A folder to run commands in.
class DocsExamples : public ::testing::Test {
 protected:
  Result shell(const std::string& line) const {
    return run(
        {"bash",
         "-ec",
         "cd '" + folder_.path().string() +
             "'; export PATH='" CAIRN_BINARY_DIR "/bin':$PATH\n" + line});
  }
  void prepare(const std::string& line) const {
    const Result result = shell(line);
    ASSERT_EQ(result.code, 0) << line << "\n" << result.err;
  }
  void SetUp() override {
    prepare("mkdir tests; ln -s '" CAIRN_GOLDEN_DIR "' tests/golden");
  }

  TemporaryFolder folder_;
};

TEST_F(DocsExamples, OfConvertingWork) {
  prepare("mkdir run; cp -rL tests/golden/checkpoints/deepspeed_z3_bf16_w2 "
          "run/checkpoints\n"
          "cairn convert --input tests/golden/models/gpt2 --output "
          "checkpoints/ds_gpt --to deepspeed\n"
          "cairn convert --input tests/golden/models/gpt2 --output "
          "checkpoints/gpt_345m --to megatron --tensor-model-parallel-size 2");
  const auto blocks = blocks_of("converting.md", "sh");
  ASSERT_GE(blocks.size(), 4U);
  for (const std::string& block : blocks) {
    const Result result = shell(block);
    EXPECT_EQ(result.code, 0) << block << result.err;
    EXPECT_THAT(result.out, HasSubstr("\nwrote ")) << block;
  }
}

TEST_F(DocsExamples, OfInspectingShowWhatThePageShows) {
  prepare("cairn launch --num_gpus 2 '" DRILL_TRAINER
          "' ckpt 5 weights.safetensors");
  const auto blocks = blocks_of("inspecting-checkpoints.md", "");
  ASSERT_EQ(blocks.size(), 4U);
  for (const std::string& block : blocks) {
    std::istringstream lines(block);
    std::string command;
    std::getline(lines, command);
    ASSERT_TRUE(command.starts_with("$ cairn checkpoint ")) << command;
    const Result result = shell(command.substr(2));
    const bool differ = command.find(" diff ") != std::string::npos;
    EXPECT_EQ(result.code, differ ? 1 : 0) << command << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("cairn: "))) << command;
    // Times and numbers differ; what each line is about does not.
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string first;
      words >> first;
      EXPECT_THAT(result.out, HasSubstr(first)) << command << "\n" << line;
    }
  }
  for (const std::string& block :
       blocks_of("inspecting-checkpoints.md", "sh")) {
    const Result result = shell(block);
    EXPECT_EQ(result.code, 0) << block << result.out << result.err;
  }
}

} // namespace
} // namespace cairn::testing
