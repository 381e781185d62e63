#include "pretrain/run/repeatable_pass.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::pretrain::repeatable_pass_test {
namespace {

using ::testing::HasSubstr;

/// The reason why passes of a training on one GPU cannot be recorded; empty if
/// they are.
std::string obstacle(const std::vector<std::string>& more) {
  std::vector<std::string> flags{
      "--cuda-graph-impl",
      "local",
      "--micro-batch-size",
      "2",
      "--attention-dropout",
      "0"};
  flags.insert(flags.end(), more.begin(), more.end());
  const config::Config config = config::Config::load({.flags = flags});
  try {
    EXPECT_TRUE(records_passes(config, 1, at::Device("cuda:0")));
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(RepeatablePass, SaysWhatStandsAgainstIt) {
  EXPECT_EQ(obstacle({"--bf16"}), "");
  EXPECT_THAT(
      obstacle({"--bf16", "--zero-stage", "3"}),
      HasSubstr("weights come and go at ZeRO stage 3"));
  EXPECT_THAT(
      obstacle({"--bf16", "--num-experts", "4"}),
      HasSubstr("routing of tokens to experts"));
  EXPECT_THAT(obstacle({"--fp16"}), HasSubstr("use --bf16"));
}

} // namespace
} // namespace cairn::pretrain::repeatable_pass_test
