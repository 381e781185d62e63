#include "distributed/watch/connection_watch.h"

#include "distributed/backends/group_core.h"
#include "distributed/failures.h"
#include "distributed/internal/agreement.h"
#include "support/run_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace cairn::distributed::connection_watch_test {
namespace {

using cairn::testing::RanksOptions;
using cairn::testing::run_ranks;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

ConnectionWatch watch_of(
    const World& world,
    std::chrono::milliseconds timeout) {
  Job& job = *Agreement::core_of(world.group())->job;
  return ConnectionWatch(
      *job.watchdog,
      {.key = "test/connecting",
       .what = "making a test",
       .rank = world.rank(),
       .members = world.group().global_ranks(),
       .timeout = timeout,
       .patience = 100ms});
}

/// The error that ends a rank's wait for others that never connect.
std::string error_of_waiting(ConnectionWatch& watch) {
  return failures::comm_error([&] {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (std::chrono::steady_clock::now() < limit) {
      watch.check();
      std::this_thread::sleep_for(10ms);
    }
  });
}

TEST(ConnectionWatch, NamesARankThatIsGone) {
  RanksOptions options{.ranks = 4};
  options.dies = {2};
  run_ranks(options, [](const World& world) {
    ConnectionWatch watch = watch_of(world, 60s);
    watch.come();
    world.group().barrier();
    if (world.rank() == 2) {
      ::kill(::getpid(), SIGKILL);
    }
    EXPECT_THAT(
        error_of_waiting(watch),
        ::testing::AllOf(
            HasSubstr("rank 2 does not answer"),
            HasSubstr("making a test")));
  });
}

TEST(ConnectionWatch, NamesTheHostOfTheStore) {
  RanksOptions options{.ranks = 2};
  options.dies = {0};
  run_ranks(options, [](const World& world) {
    ConnectionWatch watch = watch_of(world, 60s);
    world.group().barrier();
    if (world.rank() == 0) {
      ::kill(::getpid(), SIGKILL);
    }
    EXPECT_THAT(
        error_of_waiting(watch),
        HasSubstr("rank 0, which hosts the store"));
  });
}

TEST(ConnectionWatch, NamesARankThatDoesNotCome) {
  run_ranks({.ranks = 3}, [](const World& world) {
    ConnectionWatch watch = watch_of(world, 1500ms);
    if (world.rank() != 1) { // which is alive, but busy elsewhere
      watch.come();
      EXPECT_THAT(
          error_of_waiting(watch),
          HasSubstr("rank 1 did not come within 1.5 s"));
    }
    world.group().barrier();
  });
}

TEST(ConnectionWatch, IsSilentWhileAllAreThere) {
  run_ranks({.ranks = 2}, [](const World& world) {
    ConnectionWatch watch = watch_of(world, 60s);
    watch.come();
    const auto end = std::chrono::steady_clock::now() + 2s;
    while (std::chrono::steady_clock::now() < end) {
      EXPECT_NO_THROW(watch.check());
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_EQ(watch.why_failed(), "the ranks could not be connected");
    world.group().barrier();
  });
}

} // namespace
} // namespace cairn::distributed::connection_watch_test
