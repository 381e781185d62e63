// A rank dies, sleeps, errs or does not come.

#include "distributed/failures.h"
#include "distributed/internal/end_job.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

namespace cairn::distributed::failure_test {
namespace {

using cairn::testing::run_processes;
using cairn::testing::run_ranks;
using failures::comm_error;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST(Failure, AKilledRankIsNamed) {
  for (const int victim : {0, 1, 2}) {
    failures::a_killed_rank_is_named(
        {.ranks = 3, .notes_grace = 500ms},
        victim);
  }
}

TEST(Failure, AStoppedRankIsNamed) {
  for (const int victim : {0, 2}) { // rank 0 hosts the store
    failures::a_stopped_rank_is_named(
        {.ranks = 3, .collective_timeout = 700ms, .notes_grace = 500ms},
        victim);
  }
}

TEST(Failure, ASleepingRankIsNamed) {
  failures::a_sleeping_rank_is_named({.ranks = 3, .collective_timeout = 700ms});
}

TEST(Failure, ARankOnAnotherOperationIsNamed) {
  failures::a_rank_on_another_operation_is_named(
      {.ranks = 3, .collective_timeout = 700ms});
}

TEST(Failure, ADifferentSizeIsNamed) {
  failures::a_different_size_is_named(
      {.ranks = 2, .collective_timeout = 700ms},
      4096);
}

TEST(Failure, AMessageThatNobodySendsIsExplained) {
  failures::a_message_that_nobody_sends_is_explained(
      {.ranks = 2, .collective_timeout = 500ms});
}

TEST(Failure, ARankThatLeftIsNamed) {
  failures::a_rank_that_left_is_named({.ranks = 2});
}

/// Waits for a rank that leaves after the barrier, or before this rank knows
/// that the barrier is over.
void meet_and_wait(const World& world) {
  world.group().barrier();
  world.group().all_reduce(at::ones({4})).wait();
}

TEST(Failure, ARankThatEndsWithAnExceptionIsNamed) {
  run_processes({.ranks = 2}, [](const InitOptions& init) {
    try {
      const World world = init_distributed(init);
      if (world.rank() == 0) {
        world.group().barrier();
        throw DataError({.what = "no such file"});
      }
      EXPECT_THAT(
          comm_error([&] { meet_and_wait(world); }),
          HasSubstr("rank 0 has failed: it ends with an exception"));
    } catch (const DataError&) {
      EXPECT_EQ(init.environment.rank, 0);
    }
  });
}

TEST(Failure, ARankThatEndsTheJobTellsWhy) {
  run_ranks({.ranks = 2}, [](const World& world) {
    if (world.rank() == 0) {
      world.group().barrier();
      end_job(world, "the disk is full");
    } else {
      EXPECT_THAT(
          comm_error([&] { meet_and_wait(world); }),
          HasSubstr("rank 0 has failed: the disk is full"));
    }
  });
}

TEST(Failure, ABarrierGivesUpInTime) {
  failures::a_barrier_gives_up_in_time({.ranks = 2});
}

TEST(Failure, ACallThatNobodyWaitsForEnds) {
  failures::a_call_that_nobody_waits_for_ends(
      {.ranks = 2, .collective_timeout = 700ms});
}

TEST(Failure, MissingRanksOfARequiredCallAreNamed) {
  run_ranks({.ranks = 3}, [](const World& world) {
    const ProcessGroup& group = world.group();
    group.require_all("save_checkpoint");
    if (world.rank() == 0) {
      const std::string text =
          comm_error([&] { group.require_all("save_checkpoint", 300ms); });
      EXPECT_THAT(
          text,
          AllOf(
              HasSubstr("ranks 1, 2 did not call save_checkpoint within 0.3 s"),
              HasSubstr("at failure_test.cpp:"),
              HasSubstr("all 3 ranks")));
    }
    // This is no reason to end the job.
    group.barrier();
    group.require_all("something else");
  });
}

TEST(Failure, ALateRankDoesNotEnterARequiredCallAlone) {
  failures::a_late_rank_does_not_enter_a_required_call_alone({.ranks = 2});
}

TEST(Failure, AGroupThatOnlySomeMakeNamesTheOthers) {
  run_ranks({.ranks = 3, .start_timeout = 700ms}, [](const World& world) {
    if (world.rank() == 1) {
      EXPECT_THAT(
          comm_error([&] {
            world.group().subgroup({0, 1}, "pair");
          }),
          AllOf(
              HasSubstr("making group \"pair\""),
              HasSubstr("rank 0 of 2 did not come within 0.7 s")));
    }
    world.group().barrier();
    if (world.rank() == 0) {
      EXPECT_THAT(
          comm_error([&] {
            world.group().subgroup({0, 1}, "pair");
          }),
          HasSubstr("the others gave up waiting for this rank"));
    }
    if (world.rank() < 2) {
      const ProcessGroup pair = world.group().subgroup({0, 1}, "pair");
      EXPECT_EQ(pair.all_reduce(at::ones({1})).wait().item<float>(), 2);
    }
    world.group().barrier();
  });
}

TEST(Failure, AnErrorNobodyWaitedForIsThrownByTheNextCall) {
  run_ranks(
      {.ranks = 2, .notes_grace = 300ms, .dies = {1}},
      [](const World& world) {
        const ProcessGroup& group = world.group();
        group.barrier();
        if (world.rank() == 1) {
          ::kill(::getpid(), SIGKILL);
        }
        { const Pending dropped = group.all_reduce(at::ones({8})); }
        EXPECT_THAT(
            comm_error([&] { group.barrier(); }),
            HasSubstr("rank 1 does not answer"));
      });
}

TEST(Failure, IsThrownByEveryWait) {
  run_ranks(
      {.ranks = 2, .notes_grace = 300ms, .dies = {1}},
      [](const World& world) {
        const ProcessGroup& group = world.group();
        group.barrier();
        if (world.rank() == 1) {
          ::kill(::getpid(), SIGKILL);
        }
        Pending gather = group.all_gather(at::ones({8}));
        for (int i = 0; i < 3; ++i) {
          EXPECT_THAT(
              comm_error([&] { gather.wait(); }),
              HasSubstr("rank 1 does not answer"));
        }
      });
}

TEST(Failure, NoTimeoutIsTooLong) {
  constexpr auto never = std::chrono::milliseconds::max();
  run_ranks(
      {.ranks = 2, .start_timeout = never, .collective_timeout = never},
      [&](const World& world) {
        const ProcessGroup& group = world.group();
        EXPECT_EQ(group.all_reduce(at::ones({1})).wait().item<float>(), 2);
        group.barrier(never);
        group.require_all("anything", never);
      });
}

TEST(Failure, ASuspensionIsNotAHang) {
  run_ranks({.ranks = 2, .collective_timeout = 1s}, [](const World& world) {
    const ProcessGroup& group = world.group();
    const at::Tensor processes =
        group.all_gather(at::full({1}, ::getpid(), at::kLong)).wait();
    if (world.rank() == 1) {
      // Rank 0 calls, and is away for longer than it would wait if it were
      // running.
      const auto other = static_cast<pid_t>(processes[0].item<std::int64_t>());
      std::this_thread::sleep_for(200ms);
      ASSERT_EQ(::kill(other, SIGSTOP), 0);
      std::this_thread::sleep_for(2500ms);
      ASSERT_EQ(::kill(other, SIGCONT), 0);
    }
    EXPECT_EQ(group.all_reduce(at::ones({1})).wait().item<float>(), 2);
  });
}

TEST(Failure, TheStoreStaysUntilTheLastRankLeaves) {
  run_ranks({.ranks = 3, .notes_grace = 100ms}, [](const World& world) {
    if (world.rank() == 0) {
      return;
    }
    std::this_thread::sleep_for(700ms); // several times the grace
    const ProcessGroup pair = world.group().subgroup({1, 2});
    EXPECT_EQ(pair.all_reduce(at::ones({1})).wait().item<float>(), 2);
  });
}

TEST(Failure, GroupsOfOtherRanksEndToo) {
  failures::groups_of_other_ranks_end_too(
      {.ranks = 4, .collective_timeout = 700ms});
}

} // namespace
} // namespace cairn::distributed::failure_test
