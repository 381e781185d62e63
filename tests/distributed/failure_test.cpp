// A rank dies, sleeps, errs or does not come.

#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace cairn::distributed::failure_test {
namespace {

using cairn::testing::RankOutcome;
using cairn::testing::RanksOptions;
using cairn::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::string comm_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommError& error) {
    return error.what();
  }
  return "no CommError";
}

/// Lines that name a culprit; a survivor writes exactly one.
std::vector<std::string> error_lines(const RankOutcome& outcome) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : outcome.log) {
    if (c == '\n') {
      if (line.find("error: ") != std::string::npos) {
        lines.push_back(line);
      }
      line.clear();
    } else {
      line += c;
    }
  }
  return lines;
}

void wait_for_death_of_job(const ProcessGroup& group) {
  // The late rank learns of the verdict when it comes back to the group.
  const auto limit = Clock::now() + 20s;
  while (Clock::now() < limit) {
    try {
      group.require_all("still here?", 50ms);
    } catch (const CommError& error) {
      if (std::string(error.what()).find("has failed before") !=
          std::string::npos) {
        return;
      }
    }
  }
  ADD_FAILURE() << "the job never ended";
}

TEST(Failure, AKilledRankIsNamed) {
  for (const int victim : {0, 1, 2}) {
    const auto outcomes = run_ranks(
        {.ranks = 3, .notes_grace = 500ms, .dies = {victim}},
        [&](const World& world) {
          const ProcessGroup& group = world.group();
          group.all_reduce(at::ones({4})).wait();
          if (world.rank() == victim) {
            ::kill(::getpid(), SIGKILL);
          }
          const auto begin = Clock::now();
          const std::string text =
              comm_error([&] { group.all_reduce(at::ones({100000})).wait(); });
          EXPECT_LT(Clock::now() - begin, 8s);
          EXPECT_THAT(
              text,
              AllOf(
                  HasSubstr(
                      "rank " + std::to_string(world.rank()) +
                      ", all_reduce #2 of group \"world\" at "
                      "failure_test.cpp:"),
                  HasSubstr("rank " + std::to_string(victim)),
                  HasSubstr(
                      victim == 0 ? "hosts the store" : "does not answer")));
          // The text holds the library's own words, whichever they were.
          EXPECT_THAT(text, HasSubstr("onnection"));
          // The job stays over.
          EXPECT_THAT(
              comm_error([&] { group.all_reduce(at::ones({1})).wait(); }),
              HasSubstr("rank " + std::to_string(victim)));
        });
    for (int rank = 0; rank < 3; ++rank) {
      if (rank != victim) {
        EXPECT_EQ(error_lines(outcomes[rank]).size(), 1U) << outcomes[rank].log;
      }
    }
  }
}

TEST(Failure, ASleepingRankIsNamed) {
  const auto outcomes = run_ranks(
      {.ranks = 3, .collective_timeout = 700ms},
      [](const World& world) {
        const ProcessGroup& group = world.group();
        group.all_gather(at::ones({4})).wait();
        if (world.rank() == 2) {
          wait_for_death_of_job(group);
          return;
        }
        const auto begin = Clock::now();
        EXPECT_THAT(
            comm_error([&] { group.all_reduce(at::ones({4})).wait(); }),
            AllOf(
                HasSubstr("rank 2 has not reached all_reduce #2 of group "
                          "\"world\""),
                HasSubstr("its last call was all_gather #1 of group \"world\" "
                          "at failure_test.cpp:"),
                HasSubstr("finished")));
        EXPECT_LT(Clock::now() - begin, 6s);
      });
  for (const RankOutcome& outcome : outcomes) {
    const auto lines = error_lines(outcome);
    ASSERT_EQ(lines.size(), 1U) << outcome.log;
    EXPECT_THAT(lines[0], HasSubstr("rank 2 has not reached all_reduce #2"));
  }
}

TEST(Failure, ARankOnAnotherOperationIsNamed) {
  run_ranks({.ranks = 3, .collective_timeout = 700ms}, [](const World& world) {
    const ProcessGroup& group = world.group();
    group.barrier();
    const at::Tensor x = at::ones({8});
    const std::string text = comm_error([&] {
      if (world.rank() == 1) {
        group.all_gather(x).wait();
        // Data may have come through by accident; the next call hangs.
        group.all_gather(x).wait();
      } else {
        group.all_reduce(x).wait();
        group.all_reduce(x).wait();
      }
    });
    EXPECT_THAT(
        text,
        AllOf(
            HasSubstr("rank 1 called all_gather(float32 [8]) at "
                      "failure_test.cpp:"),
            HasSubstr("rank 0 called all_reduce(float32 [8], sum)")));
  });
}

TEST(Failure, ADifferentSizeIsNamed) {
  run_ranks({.ranks = 2, .collective_timeout = 700ms}, [](const World& world) {
    const std::string text = comm_error([&] {
      for (int i = 0; i < 2; ++i) {
        world.group()
            .all_reduce(at::ones({world.rank() == 0 ? 8 : 4096}))
            .wait();
      }
    });
    EXPECT_THAT(
        text,
        AllOf(HasSubstr("[8]"), HasSubstr("[4096]"), HasSubstr("#")));
  });
}

TEST(Failure, AMessageThatNobodySendsIsExplained) {
  run_ranks({.ranks = 2, .collective_timeout = 500ms}, [](const World& world) {
    const ProcessGroup& group = world.group();
    if (world.rank() == 1) {
      wait_for_death_of_job(group);
      return;
    }
    EXPECT_THAT(
        comm_error([&] { group.recv(at::ones({8}), 1).wait(); }),
        HasSubstr("rank 1 has not reached the other end of recv #1 from "
                  "rank 1"));
  });
}

TEST(Failure, ARankThatLeftIsNamed) {
  run_ranks({.ranks = 2}, [](const World& world) {
    if (world.rank() == 1) {
      return;
    }
    EXPECT_THAT(
        comm_error([&] { world.group().all_reduce(at::ones({8})).wait(); }),
        AllOf(
            HasSubstr("rank 1 has not reached all_reduce #1"),
            HasSubstr("it has left the job")));
  });
}

TEST(Failure, ABarrierGivesUpInTime) {
  run_ranks({.ranks = 2}, [](const World& world) {
    const ProcessGroup& group = world.group();
    if (world.rank() == 1) {
      wait_for_death_of_job(group);
      return;
    }
    const auto begin = Clock::now();
    EXPECT_THAT(
        comm_error([&] { group.barrier(300ms); }),
        HasSubstr("rank 1 has not reached barrier #1"));
    EXPECT_LT(Clock::now() - begin, 5s);
  });
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
  run_ranks({.ranks = 2}, [](const World& world) {
    const ProcessGroup& group = world.group();
    if (world.rank() == 0) {
      EXPECT_THAT(
          comm_error([&] { group.require_all("save", 200ms); }),
          HasSubstr("rank 1 did not call save within 0.2 s"));
    }
    group.barrier();
    if (world.rank() == 1) {
      EXPECT_THAT(
          comm_error([&] { group.require_all("save"); }),
          HasSubstr("the others gave up waiting for this rank to call save"));
    }
    group.require_all("save");
    group.require_all("save");
  });
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
    group.barrier();
    if (world.rank() == 1) {
      // The rank is away for longer than the others would wait if they were
      // running.
      std::this_thread::sleep_for(2800ms);
      group.all_reduce(at::ones({1})).wait();
      return;
    }
    Pending sum = group.all_reduce(at::ones({1}));
    const pid_t self = ::getpid();
    if (::fork() == 0) {
      ::kill(self, SIGSTOP);
      ::usleep(2500'000);
      ::kill(self, SIGCONT);
      ::_exit(0);
    }
    EXPECT_EQ(sum.wait().item<float>(), 2);
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
  // Ranks 0 and 1 hang on each other; 2 and 3 would go on for ever.
  run_ranks({.ranks = 4, .collective_timeout = 700ms}, [](const World& world) {
    const ProcessGroup pair = world.group().split(world.rank() / 2);
    const std::string text = comm_error([&] {
      if (world.rank() == 1) {
        wait_for_death_of_job(pair);
        return;
      }
      for (;;) {
        pair.all_reduce(at::ones({1})).wait();
      }
    });
    if (world.rank() != 1) {
      EXPECT_THAT(text, HasSubstr("rank 1 has not reached all_reduce #1"));
    }
  });
}

} // namespace
} // namespace cairn::distributed::failure_test
