#include "pretrain/run/stop_conditions.h"

#include "support/no_waiting.h"
#include "support/run_ranks.h"

#include <gtest/gtest.h>

#include <signal.h>

#include <optional>

namespace cairn::pretrain::stop_conditions_gpu_test {
namespace {

TEST(StopConditions, OfOneRankStopAllOverNcclOneIterationLater) {
  testing::run_ranks(
      testing::ranks_on_one_gpu(2),
      [](const distributed::World& world) {
        config::TrainingFlags flags;
        flags.exit_signal_handler = true;
        StopConditions stop(flags, world.group());
        EXPECT_EQ(stop.after(1), std::nullopt);
        if (world.rank() == 1) {
          ::raise(SIGTERM);
        }
        const testing::NoWaiting scope; // but for the iteration before
        EXPECT_EQ(stop.after(2), std::nullopt);
        EXPECT_EQ(stop.after(3), Ended::by_signal);
      });
}

} // namespace
} // namespace cairn::pretrain::stop_conditions_gpu_test
