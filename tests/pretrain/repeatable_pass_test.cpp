#include "pretrain/run/repeatable_pass.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::pretrain::repeatable_pass_test {
namespace {

using ::testing::HasSubstr;

/// The reason why passes of a training on one GPU cannot be recorded; empty if
/// they are.
std::string obstacle(
    const std::vector<std::string>& more,
    std::string_view backend = "local") {
  std::vector<std::string> flags{
      "--cuda-graph-impl",
      "local",
      "--micro-batch-size",
      "2"}; // both kinds of dropout are on
  flags.insert(flags.end(), more.begin(), more.end());
  const config::Config config = config::Config::load({.flags = flags});
  try {
    EXPECT_TRUE(records_passes(config, backend, at::Device("cuda:0")));
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
  EXPECT_EQ(obstacle({"--bf16"}, "nccl"), "");
  EXPECT_THAT(obstacle({"--bf16"}, "gloo"), HasSubstr("through the host"));
  EXPECT_THAT(
      obstacle({"--bf16", "--overlap-param-gather", "--zero-stage", "1"}),
      HasSubstr("weights arrive while a pass runs"));
  EXPECT_THAT(obstacle({"--fp16"}), HasSubstr("use --bf16"));
}

TEST(RepeatablePass, TakesExpertsWhoseRoutingStaysOnTheGpu) {
  const std::vector<std::string> experts{"--bf16", "--num-experts", "4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), experts.begin(), experts.end());
    return obstacle(more);
  };
  EXPECT_THAT(with({}), HasSubstr("add --disable-moe-token-dropping"));
  EXPECT_EQ(with({"--disable-moe-token-dropping"}), "");
  EXPECT_THAT(
      with({"--disable-moe-token-dropping", "--topk", "2"}),
      HasSubstr("add --disable-moe-top2-2nd-expert-sampling"));
  EXPECT_EQ(
      with(
          {"--disable-moe-token-dropping",
           "--topk",
           "2",
           "--disable-moe-top2-2nd-expert-sampling"}),
      "");
  EXPECT_THAT(
      with(
          {"--disable-moe-token-dropping",
           "--moe-noisy-gate-policy",
           "Jitter"}),
      HasSubstr("leave --moe-noisy-gate-policy out"));
  EXPECT_THAT(
      obstacle({"--num-experts", "4", "--disable-moe-token-dropping"}),
      HasSubstr("use --bf16"));
}

} // namespace
} // namespace cairn::pretrain::repeatable_pass_test
