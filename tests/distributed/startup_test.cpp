#include "distributed/simulated_ranks.h"
#include "distributed/start/open_files.h"
#include "support/run_ranks.h"

#include <cairn/distributed/init_distributed.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

namespace cairn::distributed::startup_test {
namespace {

using cairn::testing::run_processes;
using cairn::testing::simulate_startup;
using cairn::testing::Startup;

// The law of docs/distributed.md: the requests of a rank do not grow with the
// ranks, and the keys that all ranks name grow no faster than the ranks.
TEST(Startup, RequestsOfARankDoNotGrowWithTheRanks) {
  constexpr std::uint64_t joining = 8;
  constexpr std::uint64_t making_a_group = 9;
  constexpr std::uint64_t keys_of_a_group = 12;
  // A process of its own, because the ranks are threads and other tests fork.
  run_processes({.ranks = 1}, [](const InitOptions&) {
    // c10d looks up the names of addresses. A name server that does not answer
    // would make ranks so late that rank 0 asks the store who is missing.
    ::setenv("RES_OPTIONS", "timeout:1 attempts:1", 1);
    for (const int data : {2, 8, 32}) {
      const MeshShape shape{.data = data, .pipeline = 2, .tensor = 2};
      const auto ranks = static_cast<std::uint64_t>(shape.world_size());
      const Startup startup = simulate_startup(shape);
      const auto groups = static_cast<std::uint64_t>(startup.groups_per_rank);
      EXPECT_EQ(groups, 5U) << ranks << " ranks";
      EXPECT_LE(startup.most_requests(), joining + groups * making_a_group)
          << ranks << " ranks";
      EXPECT_LE(
          startup.all().keys,
          ranks * (joining + groups * keys_of_a_group))
          << ranks << " ranks";
      EXPECT_EQ(startup.all().connections, 3 * ranks);
    }
  });
}

TEST(Startup, MakesRoomForTheConnectionsOfAllRanks) {
  run_processes({.ranks = 1}, [](const InitOptions&) {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 64;
    limit.rlim_max = 200;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(allow_open_files(100), 100U);
    EXPECT_EQ(allow_open_files(80), 100U);
    EXPECT_EQ(allow_open_files(1000), 200U);
  });
}

} // namespace
} // namespace cairn::distributed::startup_test
