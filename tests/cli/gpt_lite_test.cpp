// examples/gpt_lite as a user starts it: one process, and two under ZeRO 3.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

namespace cairn::testing::gpt_lite_test {
namespace {

using ::testing::HasSubstr;

const std::string example = CAIRN_BINARY_DIR "/bin/gpt_lite_example";

std::vector<double> losses_in(const std::string& out) {
  std::vector<double> losses;
  const std::regex line("Epoch: \\d+, Step: 8, Loss: ([0-9.]+)\n");
  for (std::sregex_iterator it(out.begin(), out.end(), line), end; it != end;
       ++it) {
    losses.push_back(std::stod((*it)[1]));
  }
  return losses;
}

class GptLite : public ::testing::Test {
 protected:
  GptLite() {
    std::string text;
    for (int i = 0; i < 400; ++i) {
      text += "To be, or not to be, that is the question.\n";
    }
    sizes_ = {
        "--data",
        folder_.write("input.txt", text),
        "--layers",
        "2",
        "--width",
        "64",
        "--block",
        "32",
        "--epochs",
        "3",
        "--steps",
        "8"};
  }
  Result start(Words words, const std::string& zero) const {
    words.insert(
        words.end(),
        {"--deepspeed_config",
         folder_.write(
             "ds.json",
             R"({"train_batch_size": 8,
                 "optimizer": {"type": "Adam", "params": {"lr": 0.003}}, )" +
                 zero + "}")});
    words.insert(words.end(), sizes_.begin(), sizes_.end());
    return run(words);
  }

  TemporaryFolder folder_;
  Words sizes_;
};

TEST_F(GptLite, LearnsATextAloneAndUnderZero3) {
  for (
      const auto& result :
      {start({example}, R"("zero_optimization": {"stage": 0})"),
       start(
           {CAIRN_BINARY_DIR "/bin/cairn",
            "launch",
            "--num_gpus",
            "2",
            example},
           R"("zero_optimization": {"stage": 3, "all_reduce_bucket_size": 1e5})")}) {
    EXPECT_EQ(result.code, 0) << result.err;
    const std::vector<double> losses = losses_in(result.out);
    ASSERT_EQ(losses.size(), 3U) << result.out;
    EXPECT_LT(losses.back(), losses.front() - 0.5) << "does not learn";
  }
}

TEST_F(GptLite, SaysWhatIsMissing) {
  sizes_.clear();
  const Result result = start({example}, R"("steps_per_print": 1)");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("give --data FILE"));
}

} // namespace
} // namespace cairn::testing::gpt_lite_test
