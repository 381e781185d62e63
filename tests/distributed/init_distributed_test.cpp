#include "distributed/start/handshake.h"
#include "distributed/start/tcp_store.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <cairn/distributed/init_distributed.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>

namespace cairn::distributed::init_distributed_test {
namespace {

using cairn::testing::RanksOptions;
using cairn::testing::run_processes;
using cairn::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST(InitDistributed, WithoutALauncherIsAWorldOfOne) {
  const World world = init_distributed();
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.group().backend(), "local");
  EXPECT_TRUE(world.records().empty());
  world.group().barrier();
  world.group().require_all("anything");
}

TEST(InitDistributed, IsTheSameWorldAgain) {
  run_processes({.ranks = 2}, [](const InitOptions& options) {
    {
      const World world = init_distributed(options);
      const World again = init_distributed(options);
      EXPECT_EQ(&world.environment(), &again.environment());
      again.group().all_reduce(at::ones({1})).wait();
      ASSERT_EQ(world.records().size(), 1U);
      const CollectiveRecord record = world.records()[0];
      EXPECT_EQ(record.operation, "all_reduce");
      EXPECT_EQ(record.state, CollectiveState::finished);
      EXPECT_THAT(record.site, HasSubstr("init_distributed_test.cpp:"));
    }
  });
}

TEST(InitDistributed, IsTheSameWorldByWhicheverNameOfTheBackend) {
  run_processes({.ranks = 2}, [](const InitOptions& options) {
    ::setenv("CUDA_VISIBLE_DEVICES", "", 1); // automatic means gloo
    InitOptions automatic = options;
    automatic.backend = BackendChoice::automatic;
    const World world = init_distributed(options);
    const World again = init_distributed(automatic);
    EXPECT_EQ(&world.environment(), &again.environment());
  });
}

TEST(InitDistributed, ASecondWorldIgnoresWhatTheFirstLeftInTheStore) {
  run_processes({.ranks = 2}, [](const InitOptions& start) {
    const Environment& given = start.environment;
    // The store outlives the worlds, as with torchrun.
    const auto store = open_tcp_store(
        {.port = given.master_port,
         .is_server = given.rank == 0,
         .listen_fd = start.listen_fd,
         .timeout = 20s,
         .prefix = "launcher"});
    InitOptions options = start;
    options.listen_fd.reset();
    options.environment.launcher_has_store = true;
    for (int i = 0; i < 3; ++i) {
      const World world = init_distributed(options);
      const ProcessGroup pair = world.group().subgroup({1, 0});
      EXPECT_EQ(pair.all_reduce(at::ones({1})).wait().item<float>(), 2);
      world.group().require_all("end");
    }
    EXPECT_TRUE(meet(*store, "end", given.rank, {0, 1}, 20s).empty());
    store->set(fmt::format("gone/{}", given.rank), "");
    if (given.rank == 0) {
      store->wait({"gone/1"}, 20s);
    }
  });
}

TEST(InitDistributed, GroupsOfOneNameStayApart) {
  run_processes({.ranks = 2}, [](const InitOptions& options) {
    const World world = init_distributed(options);
    const ProcessGroup all = world.group().subgroup({0, 1}, "all");
    std::optional<ProcessGroup> twin = world.group().subgroup({0, 1}, "twin");
    // The group has another parent, and a name that could be taken for a
    // number.
    const ProcessGroup second = all.subgroup({0, 1}, "twin");
    const ProcessGroup third = all.subgroup({0, 1}, "twin#2");
    EXPECT_EQ(twin->name(), "twin");
    EXPECT_EQ(second.name(), "twin#2");
    twin->barrier();
    twin.reset();
    for (const ProcessGroup& group : {second, third}) {
      EXPECT_EQ(group.all_reduce(at::ones({1})).wait().item<float>(), 2);
    }
    std::set<std::string> keys;
    for (const CollectiveRecord& record : world.records()) {
      keys.insert(record.group_key);
    }
    EXPECT_EQ(keys.size(), 3U);
  });
}

TEST(InitDistributed, ReadsTheEnvironment) {
  run_processes({.ranks = 2}, [](const InitOptions& start) {
    const Environment& given = start.environment;
    ::setenv("RANK", std::to_string(given.rank).c_str(), 1);
    ::setenv("WORLD_SIZE", "2", 1);
    ::setenv("LOCAL_RANK", std::to_string(given.rank).c_str(), 1);
    ::setenv("MASTER_ADDR", "localhost", 1);
    ::setenv("MASTER_PORT", std::to_string(given.master_port).c_str(), 1);
    InitOptions options;
    options.listen_fd = start.listen_fd;
    options.backend = BackendChoice::gloo; // there may be fewer GPUs
    const World world = init_distributed(options);
    EXPECT_EQ(world.rank(), given.rank);
    EXPECT_EQ(world.local_rank(), given.rank);
    const at::Tensor sum = world.group().all_reduce(at::ones({1})).wait();
    EXPECT_EQ(sum.item<float>(), 2);
  });
}

TEST(InitDistributed, RanksThatShareAGpuAreHostsOfOneRank) {
  // Only NCCL is made to believe in these hosts: Gloo still finds that the
  // ranks have memory in common.
  run_ranks({.ranks = 2, .share_gpu = true}, [](const World& world) {
    const Environment& environment = world.environment();
    EXPECT_EQ(environment.world_size, 2);
    EXPECT_EQ(environment.local_rank, 0);
    EXPECT_EQ(environment.local_world_size, 1);
    EXPECT_EQ(environment.node_rank, world.rank());
    EXPECT_EQ(
        process_variable("NCCL_HOSTID"),
        fmt::format("cairn-shared-gpu-{}", world.rank()));
    EXPECT_EQ(process_variable("NCCL_NET"), "Socket");
    EXPECT_EQ(world.group().all_reduce(at::ones({1})).wait().item<float>(), 2);
  });
}

TEST(InitDistributed, NamesTheRanksThatDidNotCome) {
  run_processes(
      {.ranks = 4, .start_timeout = 700ms},
      [](const InitOptions& options) {
        if (options.environment.rank >= 2) {
          return;
        }
        try {
          init_distributed(options);
          ADD_FAILURE() << "started without ranks 2 and 3";
        } catch (const CommError& error) {
          EXPECT_THAT(
              error.what(),
              AllOf(
                  HasSubstr("2 of 4 ranks came within 0.7 s"),
                  HasSubstr("missing: ranks 2, 3"),
                  HasSubstr("store at 127.0.0.1:")));
        }
      });
}

TEST(InitDistributed, NamesTheAddressWhereRankZeroIsNot) {
  run_processes(
      {.ranks = 2, .start_timeout = 500ms},
      [](const InitOptions& start) {
        if (start.environment.rank == 0) {
          return;
        }
        // Somebody listens but never answers; and nobody listens at all.
        for (const int port : {int{start.environment.master_port}, 1}) {
          InitOptions options = start;
          options.environment.master_port = static_cast<std::uint16_t>(port);
          try {
            init_distributed(options);
            ADD_FAILURE() << "started without rank 0";
          } catch (const CommError& error) {
            EXPECT_THAT(
                error.what(),
                AllOf(
                    HasSubstr("store at 127.0.0.1:" + std::to_string(port)),
                    HasSubstr("rank 0 was not there within 0.5 s"),
                    HasSubstr("MASTER_ADDR")));
          }
        }
      });
}

TEST(InitDistributed, ARankSaysForWhomItWaitsBeforeItGivesUp) {
  // A process of its own, because others fork, and a lookup of a name may be
  // left behind in a thread.
  run_processes({.ranks = 1}, [](const InitOptions& start) {
    struct Place {
      const char* host;
      std::uint16_t port;
    };
    // Nobody listens; somebody listens but never answers; there is no address.
    for (const Place& place :
         {Place{"127.0.0.1", 1},
          Place{"127.0.0.1", start.environment.master_port},
          Place{"no-such-host.invalid", 1}}) {
      for (const std::string secret : {"", "between us"}) {
        int said = 0;
        try {
          open_tcp_store(
              {.host = place.host,
               .port = place.port,
               .timeout = 600ms,
               .patience = 100ms,
               .on_wait = [&] { ++said; },
               .secret = secret});
          ADD_FAILURE() << "rank 0 is there";
        } catch (const CommError& error) {
          EXPECT_THAT(
              error.what(),
              AllOf(
                  HasSubstr("CAIRN_JOB_SECRET"),
                  HasSubstr(secret.empty() ? "uses none" : "uses one")));
        }
        EXPECT_EQ(said, 1) << place.host << ":" << place.port << " " << secret;
      }
    }
  });
}

TEST(InitDistributed, SaysThatThePortIsTaken) {
  run_processes({.ranks = 1}, [](const InitOptions& start) {
    const World first = init_distributed(start);
    InitOptions options = start;
    options.listen_fd.reset();
    options.environment.world_size = 2; // another job on the same port
    try {
      init_distributed(options);
      ADD_FAILURE() << "two jobs on one port";
    } catch (const CommError& error) {
      EXPECT_THAT(
          error.what(),
          AllOf(HasSubstr("cannot listen"), HasSubstr("MASTER_PORT")));
    }
  });
}

} // namespace
} // namespace cairn::distributed::init_distributed_test
