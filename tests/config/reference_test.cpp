#include "config/internal/reference.h"
#include "support/error_text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace cairn::config::reference_test {
namespace {

// Compares line by line, so that a failure shows one line and not the page.
void expect_same(const std::string& printed, const std::string& path) {
  std::ifstream file(std::string(CAIRN_SOURCE_DIR) + "/" + path);
  ASSERT_TRUE(file) << path;
  std::istringstream lines(printed);
  std::string line;
  std::string copy;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::getline(file, copy);
    ASSERT_EQ(line, copy) << path << ":" << number;
  }
  EXPECT_FALSE(std::getline(file, copy)) << path << " has more: " << copy;
}

// A change of the table shows up in review as a change of these files. To
// renew them: tools/renew_printed.sh.
TEST(Reference, TheCheckedInCopiesAreCurrent) {
  expect_same(reference_page(), "docs/configuration.md");
  expect_same(keys_text(), "tests/config/keys.txt");
  expect_same(flags_text(), "tests/config/flags.txt");
}

TEST(Reference, ExplainsAKey) {
  EXPECT_EQ(
      explain("zero_optimization.stage"),
      "zero_optimization.stage\n"
      "  0: nothing; 1: optimizer state; 2: gradients too; 3: parameters too.\n"
      "\n"
      "  type       0, 1, 2 or 3\n"
      "  default    0\n"
      "  flag       --zero-stage\n"
      "  supported  yes\n");
  EXPECT_EQ(explain("stage"), explain("zero_optimization.stage"));
  EXPECT_EQ(
      explain("zero_optimization.prefetch_bucket_size"),
      explain("zero_optimization.stage3_prefetch_bucket_size"));
}

TEST(Reference, ExplainsAFlag) {
  EXPECT_EQ(
      explain("--micro_batch-size"),
      "--micro-batch-size N\n"
      "  Samples one rank takes at a time.\n"
      "\n"
      "  group      training\n"
      "  type       integer, at least 1\n"
      "  default    none\n"
      "  also       --batch-size\n"
      "  JSON key   train_micro_batch_size_per_gpu\n"
      "  supported  yes\n");
}

TEST(Reference, ExplainsASectionWithWhatIsInIt) {
  const std::string text = explain("zero_optimization.offload_optimizer");
  EXPECT_NE(text.find("\n  nvme_path "), std::string::npos) << text;
  EXPECT_NE(text.find("\n  super_offload "), std::string::npos) << text;
  EXPECT_NE(text.find("(refused)"), std::string::npos) << text;
}

TEST(Reference, ExplainsWhatIsRefused) {
  EXPECT_NE(
      explain("wandb").find("known to DeepSpeed, not supported by Cairn"),
      std::string::npos);
  EXPECT_NE(
      explain("--tp-only-amax-red").find("known to Megatron-LM, not supported"),
      std::string::npos);
}

TEST(Reference, AnUnknownNameGetsTheNearest) {
  EXPECT_EQ(
      error_text([] { explain("zero_optimization.stge"); }),
      "no key or flag is called \"zero_optimization.stge\"; did you mean "
      "\"zero_optimization.stage\"?");
  EXPECT_EQ(
      error_text([] { explain("--miro-batch-size"); }),
      "no key or flag is called \"--miro-batch-size\"; did you mean "
      "\"--micro-batch-size\"?");
}

} // namespace
} // namespace cairn::config::reference_test
