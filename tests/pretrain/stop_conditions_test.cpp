#include "pretrain/run/stop_conditions.h"

#include "support/run_ranks.h"

#include <gtest/gtest.h>

#include <signal.h>

#include <optional>

namespace cairn::pretrain::stop_conditions_test {
namespace {

TEST(StopConditions, OfOneRankStopAll) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    config::TrainingFlags flags;
    flags.exit_signal_handler = true;
    flags.exit_interval = 4;
    StopConditions stop(flags, world.group());
    EXPECT_EQ(stop.after(1), std::nullopt);
    if (world.rank() == 1) {
      ::raise(SIGTERM);
    }
    EXPECT_EQ(stop.after(2), Ended::by_signal);
  });
}

TEST(StopConditions, AreTheIntervalAndTheTime) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    config::TrainingFlags flags;
    flags.exit_interval = 4;
    StopConditions at_interval(flags, world.group());
    EXPECT_EQ(at_interval.after(3), std::nullopt);
    EXPECT_EQ(at_interval.after(4), Ended::interval);
    flags.exit_duration_in_mins = 0;
    StopConditions at_once(flags, world.group());
    EXPECT_EQ(at_once.after(1), Ended::duration);
  });
}

} // namespace
} // namespace cairn::pretrain::stop_conditions_test
