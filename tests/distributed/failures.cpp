#include "distributed/failures.h"

#include "distributed/internal/partition.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <new>
#include <numeric>
#include <thread>
#include <utility>

namespace cairn::distributed::failures {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::run_processes;
using testing::run_ranks;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Time that ranks may take to agree on the culprit, once one is due.
constexpr auto agreement = 10s;

bool on_gpu(const World& world) {
  return world.group().backend() == "nccl";
}

/// Numbers that the processes of a test share.
struct Shared {
  std::atomic<int> ended = 0; ///< ranks that have ended, destructors and all
  std::atomic<bool> too_late = false;
};

class SharedPage {
 public:
  SharedPage()
      : page_(::mmap(
            nullptr,
            sizeof(Shared),
            PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_ANONYMOUS,
            -1,
            0)) {
    EXPECT_NE(page_, MAP_FAILED);
    new (page_) Shared;
  }
  ~SharedPage() { ::munmap(page_, sizeof(Shared)); }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;

  Shared& operator*() const { return *static_cast<Shared*>(page_); }

 private:
  void* page_;
};

/// Suspends this process. Another one kills it when `ranks` others have ended.
void stop_until_ended(Shared& shared, int ranks) {
  const pid_t self = ::getpid();
  if (::fork() == 0) {
    ::kill(self, SIGSTOP);
    const auto limit = Clock::now() + 40s;
    while (shared.ended < ranks && Clock::now() < limit) {
      ::usleep(20'000);
    }
    shared.too_late = shared.ended < ranks;
    ::kill(self, SIGKILL);
    ::_exit(0);
  }
  for (;;) {
    ::pause();
  }
}

} // namespace

std::string comm_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommError& error) {
    return error.what();
  }
  return "no CommError";
}

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
  const auto limit = Clock::now() + 30s;
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

at::Tensor ones(const World& world, std::int64_t size) {
  return at::ones({size}, at::Device(world.device_name()));
}

void finish(Pending pending) {
  const at::Tensor result = pending.wait();
  if (result.defined() && result.is_cuda()) {
    result.cpu();   // blocks until the GPU is done, or the call aborted
    pending.wait(); // throws in the latter case
  }
}

void a_killed_rank_is_named(RanksOptions options, int victim) {
  options.dies = {victim};
  const auto outcomes = run_ranks(options, [&](const World& world) {
    const ProcessGroup& group = world.group();
    finish(group.all_reduce(ones(world, 4)));
    if (world.rank() == victim) {
      // NCCL has the sum here before the others have it.
      std::this_thread::sleep_for(on_gpu(world) ? 1s : 0s);
      ::kill(::getpid(), SIGKILL);
    }
    const auto begin = Clock::now();
    const std::string text =
        comm_error([&] { finish(group.all_reduce(ones(world, 100000))); });
    EXPECT_LT(
        Clock::now() - begin,
        on_gpu(world) ? options.collective_timeout + agreement : 8s);
    EXPECT_THAT(
        text,
        AllOf(
            HasSubstr(fmt::format(
                "rank {}, all_reduce #2 of group \"world\" at failures.cpp:",
                world.rank())),
            HasSubstr(fmt::format("rank {}", victim)),
            HasSubstr(victim == 0 ? "hosts the store" : "does not answer")));
    if (!on_gpu(world)) {
      // The text holds the library's own words, whichever they were.
      EXPECT_THAT(text, HasSubstr("onnection"));
    }
    // The job stays over.
    EXPECT_THAT(
        comm_error([&] { finish(group.all_reduce(ones(world, 1))); }),
        HasSubstr(fmt::format("rank {}", victim)));
  });
  for (int rank = 0; rank < options.ranks; ++rank) {
    const RankOutcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    if (rank != victim && options.backend == BackendChoice::gloo) {
      EXPECT_EQ(error_lines(outcome).size(), 1U) << outcome.log;
    }
  }
}

void a_stopped_rank_is_named(const RanksOptions& asked, int victim) {
  RanksOptions options = asked;
  options.dies = {victim};
  const SharedPage page;
  Shared& shared = *page;
  run_processes(options, [&](const InitOptions& init) {
    {
      const World world = init_distributed(init);
      finish(world.group().all_reduce(ones(world, 4)));
      if (world.rank() == victim) {
        stop_until_ended(shared, options.ranks - 1);
      }
      const auto begin = Clock::now();
      EXPECT_THAT(
          comm_error([&] { finish(world.group().all_reduce(ones(world, 4))); }),
          AllOf(
              HasSubstr(fmt::format("rank {}", victim)),
              HasSubstr("does not answer")));
      EXPECT_LT(Clock::now() - begin, options.collective_timeout + agreement);
    }
    ++shared.ended;
  });
  EXPECT_FALSE(shared.too_late) << "ranks hang until the stopped one is killed";
}

void a_sleeping_rank_is_named(const RanksOptions& options) {
  const int sleeper = options.ranks - 1;
  const auto outcomes = run_ranks(options, [&](const World& world) {
    const ProcessGroup& group = world.group();
    finish(group.all_gather(ones(world, 4)));
    if (world.rank() == sleeper) {
      wait_for_death_of_job(group);
      return;
    }
    const auto begin = Clock::now();
    EXPECT_THAT(
        comm_error([&] { finish(group.all_reduce(ones(world, 4))); }),
        AllOf(
            HasSubstr(fmt::format(
                "rank {} has not reached all_reduce #2 of group \"world\"",
                sleeper)),
            HasSubstr("its last call was all_gather #1 of group \"world\" at "
                      "failures.cpp:"),
            HasSubstr("finished")));
    EXPECT_LT(Clock::now() - begin, options.collective_timeout + agreement);
  });
  for (const RankOutcome& outcome : outcomes) {
    const auto lines = error_lines(outcome);
    if (options.backend == BackendChoice::gloo) { // NCCL has its own words
      EXPECT_EQ(lines.size(), 1U) << outcome.log;
    }
    EXPECT_THAT(
        lines,
        Contains(HasSubstr(
            fmt::format("rank {} has not reached all_reduce #2", sleeper))));
  }
}

void a_rank_that_left_is_named(const RanksOptions& options) {
  run_ranks(options, [](const World& world) {
    if (world.rank() == 1) {
      return;
    }
    EXPECT_THAT(
        comm_error([&] { finish(world.group().all_reduce(ones(world, 8))); }),
        AllOf(
            HasSubstr("rank 1 has not reached all_reduce #1"),
            HasSubstr("it has left the job")));
  });
}

void a_message_that_nobody_sends_is_explained(const RanksOptions& options) {
  run_ranks(options, [](const World& world) {
    const ProcessGroup& group = world.group();
    if (world.rank() == 1) {
      wait_for_death_of_job(group);
      return;
    }
    EXPECT_THAT(
        comm_error([&] { finish(group.recv(ones(world, 8), 1)); }),
        HasSubstr("rank 1 has not reached the other end of recv #1 from "
                  "rank 1"));
  });
}

void a_barrier_gives_up_in_time(const RanksOptions& options) {
  run_ranks(options, [](const World& world) {
    const ProcessGroup& group = world.group();
    group.barrier();
    if (world.rank() == 1) {
      wait_for_death_of_job(group);
      return;
    }
    const auto begin = Clock::now();
    EXPECT_THAT(
        comm_error([&] { group.barrier(300ms); }),
        HasSubstr("rank 1 has not reached barrier #2"));
    EXPECT_LT(Clock::now() - begin, agreement);
  });
}

void a_rank_on_another_operation_is_named(const RanksOptions& options) {
  run_ranks(options, [](const World& world) {
    const ProcessGroup& group = world.group();
    group.barrier();
    const at::Tensor x = ones(world, 8);
    const std::string text = comm_error([&] {
      // Data may come through by accident, though not for all ranks each time.
      for (int i = 0; i < 2; ++i) {
        finish(world.rank() == 1 ? group.all_gather(x) : group.all_reduce(x));
      }
      group.barrier();
    });
    EXPECT_THAT(
        text,
        AllOf(
            HasSubstr("rank 1 called all_gather(float32 [8]) at failures.cpp:"),
            HasSubstr("rank 0 called all_reduce(float32 [8], sum)")));
  });
}

void a_different_size_is_named(
    const RanksOptions& options,
    std::int64_t large) {
  run_ranks(options, [&](const World& world) {
    const ProcessGroup& group = world.group();
    const std::string text = comm_error([&] {
      for (int i = 0; i < 2; ++i) {
        finish(group.all_reduce(ones(world, world.rank() == 0 ? 8 : large)));
      }
      group.barrier(); // the smaller data may have come through
    });
    EXPECT_THAT(
        text,
        AllOf(
            HasSubstr("[8]"),
            HasSubstr(fmt::format("[{}]", large)),
            HasSubstr("#")));
  });
}

void a_late_rank_does_not_enter_a_required_call_alone(
    const RanksOptions& options) {
  run_ranks(options, [](const World& world) {
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
    finish(group.all_reduce(ones(world, 4)));
  });
}

void a_call_that_nobody_waits_for_ends(const RanksOptions& options) {
  run_ranks(options, [&](const World& world) {
    const ProcessGroup& group = world.group();
    finish(group.all_reduce(ones(world, 4)));
    if (world.rank() == options.ranks - 1) {
      wait_for_death_of_job(group);
      return;
    }
    const Pending dropped = group.all_reduce(ones(world, 4));
  });
}

namespace {

/// Makes a group of all ranks but the last, which does not take part.
void expect_that_cutting_names(int victim, const World& world) {
  std::vector<int> others(static_cast<std::size_t>(world.size() - 1));
  std::iota(others.begin(), others.end(), 0);
  const auto begin = Clock::now();
  EXPECT_THAT(
      comm_error([&] { partition(world.group(), others, "others"); }),
      HasSubstr(fmt::format("rank {} does not answer", victim)));
  EXPECT_LT(Clock::now() - begin, 3s + 2 * agreement);
}

} // namespace

void a_rank_that_does_not_connect_is_named(const RanksOptions& asked) {
  RanksOptions options = asked;
  const int victim = options.ranks - 1;
  options.dies = {victim};
  const SharedPage page;
  Shared& shared = *page;
  run_processes(options, [&](const InitOptions& init) {
    {
      const World world = init_distributed(init);
      finish(world.group().all_reduce(ones(world, 4)));
      if (world.rank() == victim) {
        stop_until_ended(shared, options.ranks - 1);
      }
      expect_that_cutting_names(victim, world);
    }
    ++shared.ended;
  });
  EXPECT_FALSE(shared.too_late) << "ranks hang until the stopped one is killed";
}

void groups_of_other_ranks_end_too(const RanksOptions& options) {
  // Ranks 0 and 1 hang on each other; 2 and 3 would go on for ever.
  run_ranks(options, [](const World& world) {
    const ProcessGroup pair = world.group().split(world.rank() / 2);
    const std::string text = comm_error([&] {
      if (world.rank() == 1) {
        wait_for_death_of_job(pair);
        return;
      }
      for (;;) {
        finish(pair.all_reduce(ones(world, 1)));
      }
    });
    if (world.rank() != 1) {
      EXPECT_THAT(text, HasSubstr("rank 1 has not reached all_reduce #1"));
    }
  });
}

} // namespace cairn::distributed::failures
