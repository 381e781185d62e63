#include "distributed/simulated_ranks.h"
#include "distributed/start/listening_socket.h"
#include "distributed/start/open_files.h"
#include "support/run_ranks.h"

#include <arpa/inet.h>
#include <cairn/distributed/init_distributed.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <string>

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

std::string address_of(int listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size),
      0);
  std::array<char, INET_ADDRSTRLEN> text{};
  return ::inet_ntop(
      AF_INET,
      &address.sin_addr,
      text.data(),
      static_cast<socklen_t>(text.size()));
}

TEST(Startup, TheStoreListensOnTheAddressOfTheMaster) {
  EXPECT_EQ(address_of(listen_on_loopback(0).get()), "127.0.0.1");
  for (const char* host : {"127.0.0.1", "127.0.0.2", "localhost"}) {
    const auto listener = listen_on(host, 0, /*one_machine=*/true);
    ASSERT_TRUE(listener) << host;
    EXPECT_EQ(
        address_of(listener->get()),
        host == std::string("localhost") ? "127.0.0.1" : host);
  }
  // Ranks on other machines could not come.
  EXPECT_FALSE(listen_on("127.0.0.1", 0, /*one_machine=*/false));
  EXPECT_FALSE(listen_on("localhost", 0, /*one_machine=*/false));
  // An address of another machine, as behind a service of Kubernetes's.
  EXPECT_FALSE(listen_on("192.0.2.1", 0, /*one_machine=*/false));
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
