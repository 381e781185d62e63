// A rank dies, stops, leaves or does not come while others wait in a call of
// NCCL. The ranks share one GPU.

#include "distributed/failures.h"
#include "support/run_ranks.h"

#include <gtest/gtest.h>

#include <chrono>

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
