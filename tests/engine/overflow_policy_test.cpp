#include "engine/step/overflow_policy.h"
#include "support/error_text.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <optional>

namespace cairn::engine::overflow_policy_test {
namespace {

using ::testing::HasSubstr;
using Skipped = OverflowPolicy::Skipped;

Progress progress_at(double scale, std::int64_t global_steps = 0) {
  optim::FusedScale state;
  state.scale = scale;
  return {
      .scaler = optim::LossScaler(state),
      .schedule = {nullptr, RateSchedule::Counts::updates},
      .global_steps = global_steps};
}

OverflowPolicy::Options quiet(config::AtMinimumScale at_minimum) {
  return {
      .at_minimum = at_minimum,
      .logger = Logger({.least = LogLevel::error}),
      .roll_back = {}};
}

TEST(OverflowPolicy, LowersTheScaleFirst) {
  Progress progress = progress_at(4);
  OverflowPolicy policy(progress, quiet(config::AtMinimumScale::stop));
  EXPECT_EQ(policy.skip("a"), Skipped::counts);
  EXPECT_EQ(progress.scaler.scale(), 2);
  EXPECT_EQ(progress.skipped_steps, 1);
}

TEST(OverflowPolicy, HoldsAtTheMinimum) {
  Progress progress = progress_at(1);
  OverflowPolicy policy(progress, quiet(config::AtMinimumScale::hold));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(policy.skip("a"), Skipped::counts);
  }
  EXPECT_EQ(progress.skipped_steps, 5);
}

TEST(OverflowPolicy, StopsAtTheMinimum) {
  Progress progress = progress_at(1, 7);
  OverflowPolicy policy(progress, quiet(config::AtMinimumScale::stop));
  EXPECT_THAT(
      error_text<Error>([&] { policy.skip("head.weight"); }),
      HasSubstr("step 7, head.weight: gradients overflow at the smallest loss "
                "scale (loss scale 1)"));
}

TEST(OverflowPolicy, RollsBackOnceFromEveryStep) {
  Progress progress = progress_at(1, 4);
  auto options = quiet(config::AtMinimumScale::roll_back);
  int loads = 0;
  options.roll_back = [&]() -> std::optional<std::filesystem::path> {
    ++loads;
    progress.global_steps = 2;
    return "ckpt/global_step2";
  };
  OverflowPolicy policy(progress, options);
  EXPECT_EQ(policy.skip("a"), Skipped::is_undone);
  EXPECT_EQ(progress.global_steps, 2);
  progress.global_steps = 4; // the same step again
  EXPECT_THAT(
      error_text<Error>([&] { policy.skip("a"); }),
      HasSubstr("a roll back from step 4 did not help"));
  progress.global_steps = 5;
  EXPECT_EQ(policy.skip("a"), Skipped::is_undone);
  EXPECT_EQ(loads, 2);
}

TEST(OverflowPolicy, SaysThatThereIsNothingToGoBackTo) {
  Progress progress = progress_at(1);
  auto options = quiet(config::AtMinimumScale::roll_back);
  options.roll_back = [] { return std::nullopt; };
  OverflowPolicy policy(progress, options);
  EXPECT_THAT(
      error_text<Error>([&] { policy.skip("a"); }),
      HasSubstr("there is no checkpoint to roll back to"));
}

} // namespace
} // namespace cairn::engine::overflow_policy_test
