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
  const std::vector<std::string> experts{"--num-experts", "4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), experts.begin(), experts.end());
    return obstacle(more);
  };
  EXPECT_THAT(with({"--bf16"}), HasSubstr("tokens to drop are drawn anew"));
  EXPECT_EQ(with({"--bf16", "--disable-moe-token-dropping"}), "");
  EXPECT_EQ(with({"--disable-moe-random-token-selection"}), "");
  EXPECT_THAT(
      with({"--disable-moe-token-dropping"}),
      HasSubstr("how many tokens each expert got; use --bf16"));
  EXPECT_THAT(
      with({"--bf16", "--topk", "2"}),
      HasSubstr("--disable-moe-top2-2nd-expert-sampling"));
  EXPECT_THAT(
      with({"--bf16", "--moe-noisy-gate-policy", "Jitter"}),
      HasSubstr("the router draws noise"));
}

} // namespace
} // namespace cairn::pretrain::repeatable_pass_test
