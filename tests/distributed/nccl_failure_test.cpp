// A rank dies, stops, leaves or does not come while others wait in a call of
// NCCL. The ranks share one GPU.

#include "distributed/failures.h"
#include "support/run_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <thread>

namespace cairn::distributed::nccl_failure_test {
namespace {

/// Options with a short timeout, though not too short for the first call of a
/// kind, in which NCCL loads kernels and connects ranks.
cairn::testing::RanksOptions ranks(int count) {
  auto options = cairn::testing::ranks_on_one_gpu(count);
  options.collective_timeout = std::chrono::seconds(8);
  options.limit = std::chrono::seconds(90);
  return options;
}

TEST(NcclFailure, AStoppedRankIsNamed) {
  failures::a_stopped_rank_is_named(ranks(2), 1);
}

TEST(NcclFailure, AStoppedRankOfFourIsNamed) {
  failures::a_stopped_rank_is_named(ranks(4), 0);
}

TEST(NcclFailure, ASleepingRankIsNamed) {
  failures::a_sleeping_rank_is_named(ranks(4));
}

TEST(NcclFailure, AKilledRankIsNamed) {
  failures::a_killed_rank_is_named(ranks(3), 1);
}

TEST(NcclFailure, TheHostOfTheStoreIsNamed) {
  failures::a_killed_rank_is_named(ranks(3), 0);
}

// NCCL compares neither operations nor sizes: ranks hang, or get an error or
// wrong values. The records of the calls tell which rank is unlike the others.
TEST(NcclFailure, ARankOnAnotherOperationIsNamed) {
  failures::a_rank_on_another_operation_is_named(ranks(3));
}

TEST(NcclFailure, ADifferentSizeIsNamed) {
  // Far more messages than the few that NCCL sends for 8 elements.
  failures::a_different_size_is_named(ranks(2), std::int64_t{1} << 24);
}

TEST(NcclFailure, ALateRankDoesNotEnterARequiredCallAlone) {
  failures::a_late_rank_does_not_enter_a_required_call_alone(ranks(2));
}

/// On a GPU a Pending that is dropped orders the stream and waits for nothing,
/// so it has no error to keep for the next call. The watchdog sees the call
/// fail, and from then on every call throws before it starts.
TEST(NcclFailure, AnErrorNobodyWaitedForIsThrownByALaterCall) {
  auto options = ranks(2);
  options.dies = {1};
  cairn::testing::run_ranks(options, [](const World& world) {
    const ProcessGroup& group = world.group();
    failures::finish(group.all_reduce(failures::ones(world, 8)));
    if (world.rank() == 1) {
      // NCCL has the sum here before the other rank has it.
      std::this_thread::sleep_for(std::chrono::seconds(1));
      ::kill(::getpid(), SIGKILL);
    }
    { const Pending dropped = group.all_reduce(failures::ones(world, 8)); }
    failures::wait_for_death_of_job(group);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(
        failures::comm_error([&] {
          const Pending next = group.all_reduce(failures::ones(world, 8));
        }),
        ::testing::HasSubstr("rank 1 does not answer"));
    EXPECT_LT(
        std::chrono::steady_clock::now() - begin,
        std::chrono::seconds(1));
  });
}

TEST(NcclFailure, ARankThatLeftIsNamed) {
  failures::a_rank_that_left_is_named(ranks(2));
}

TEST(NcclFailure, AMessageThatNobodySendsIsExplained) {
  // NCCL blocks the host in this call: it is the first between the two ranks.
  failures::a_message_that_nobody_sends_is_explained(ranks(2));
}

TEST(NcclFailure, ABarrierGivesUpInTime) {
  failures::a_barrier_gives_up_in_time(ranks(2));
}

TEST(NcclFailure, ACallThatNobodyWaitsForEnds) {
  failures::a_call_that_nobody_waits_for_ends(ranks(2));
}

TEST(NcclFailure, GroupsOfOtherRanksEndToo) {
  failures::groups_of_other_ranks_end_too(ranks(4));
}

TEST(NcclFailure, ARankThatDoesNotConnectIsNamed) {
  failures::a_rank_that_does_not_connect_is_named(ranks(3));
}

} // namespace
} // namespace cairn::distributed::nccl_failure_test
