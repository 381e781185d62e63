#include "monitor/internal/profiled_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ProfiledSteps, AreThoseOfTheFlags) {
  config::LoggingFlags flags;
  EXPECT_THAT(profiled_steps(flags, 0), IsEmpty());
  flags.profile = true;
  // Megatron-LM's 10 and 12 are the 11th and the 12th iteration.
  EXPECT_THAT(profiled_steps(flags, 0), ElementsAre(StepRange{11, 12}));
  EXPECT_THAT(profiled_steps(flags, 1), IsEmpty());
  flags.profile_ranks = {};
  EXPECT_THAT(profiled_steps(flags, 1), ElementsAre(StepRange{11, 12}));
  flags.profile_step_end = 10;
  EXPECT_THAT(profiled_steps(flags, 0), IsEmpty());
  flags.profile_steps = {"7,9", "2-4", "12", "3-5"};
  EXPECT_THAT(
      profiled_steps(flags, 0),
      ElementsAre(StepRange{2, 5}, StepRange{7, 9}, StepRange{12, 12}));
}

TEST(ProfiledSteps, GoBesideTensorBoards) {
  config::LoggingFlags flags;
  EXPECT_EQ(profiling_folder(flags), "profiling");
  flags.tensorboard_dir = "output/gpt-125m/tensorboard";
  EXPECT_EQ(profiling_folder(flags), "output/gpt-125m/profiling");
  flags.tensorboard_dir = "output/gpt-125m/tensorboard/";
  EXPECT_EQ(profiling_folder(flags), "output/gpt-125m/profiling");
  flags.tensorboard_dir = "tensorboard";
  EXPECT_EQ(profiling_folder(flags), "profiling");
}

} // namespace
} // namespace cairn::monitor
