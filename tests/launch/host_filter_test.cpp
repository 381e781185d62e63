#include "launch/internal/host_filter.h"

#include <cairn/base/error.h>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace cairn::launch::host_filter_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<Host> pool = {
    host_with_slots("worker-0", 4),
    host_with_slots("worker-1", 4),
    host_with_slots("worker-2", 2)};

TEST(HostFilter, IncludesWhatItNames) {
  EXPECT_THAT(
      include_hosts(pool, "worker-0@worker-1:0,2"),
      ElementsAre(Host{"worker-0", {0, 1, 2, 3}}, Host{"worker-1", {0, 2}}));
  EXPECT_THAT(
      include_hosts(pool, "worker-1:3,0,3@worker-0:1@worker-1:1"),
      ElementsAre(Host{"worker-0", {1}}, Host{"worker-1", {0, 1, 3}}));
}

TEST(HostFilter, ExcludesWhatItNames) {
  EXPECT_THAT(
      exclude_hosts(pool, "worker-1:0"),
      ElementsAre(pool[0], Host{"worker-1", {1, 2, 3}}, pool[2]));
  EXPECT_THAT(
      exclude_hosts(pool, "worker-1@worker-2:0,1@worker-0:3"),
      ElementsAre(Host{"worker-0", {0, 1, 2}}));
}

std::string message(const char* filter, auto apply) {
  try {
    apply(pool, filter);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(HostFilter, RefusesWhatThePoolDoesNotHave) {
  for (const auto apply : {include_hosts, exclude_hosts}) {
    EXPECT_THAT(
        message("wroker-1:0", apply),
        HasSubstr("no host \"wroker-1\"; did you mean \"worker-1\"?"));
    EXPECT_THAT(
        message("elsewhere", apply),
        HasSubstr("known hosts: worker-0, worker-1, worker-2"));
    EXPECT_THAT(
        message("worker-2:1,2", apply),
        HasSubstr("host worker-2 has no slot 2; it has slots 0,1"));
    for (const char* bad :
         {"",
          "@",
          "worker-0@",
          "worker-0:",
          "worker-0:x",
          "worker-0:0,",
          "worker-0:-1",
          "worker-0:0:1",
          "worker-0:99999999999",
          ":0",
          "a b"}) {
      EXPECT_THAT(message(bad, apply), HasSubstr("host filter: ")) << bad;
    }
  }
  EXPECT_THAT(
      message("worker-0@worker-1@worker-2", exclude_hosts),
      HasSubstr("leaves no slot"));
}

TEST(HostFilter, IsWrittenAndReadBack) {
  const auto hosts = include_hosts(pool, "worker-0:1,3@worker-2");
  EXPECT_EQ(to_filter(hosts), "worker-0:1,3@worker-2:0,1");
}

TEST(World, IsShortForEachOfManyHosts) {
  std::vector<Host> hosts;
  for (int i = 0; i < 4000; ++i) {
    hosts.push_back(host_with_slots(fmt::format("worker-{}", i), 8));
  }
  hosts[3].slots = {1, 5};
  EXPECT_EQ(world_seen_from(hosts, 3), "3x8@worker-3:1,5@3996x8");
  EXPECT_EQ(
      world_seen_from(hosts, 0),
      "worker-0:0,1,2,3,4,5,6,7@2x8@1x2@3996x8");
  for (const std::size_t node : {0, 3, 3999}) {
    const auto seen = parse_world(world_seen_from(hosts, node));
    ASSERT_EQ(seen.size(), hosts.size());
    EXPECT_EQ(seen[node], hosts[node]);
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      ASSERT_EQ(seen[i].slots.size(), hosts[i].slots.size()) << i;
    }
  }
  for (const char* bad : {"", "x", "3x", "x8", "0x8", "3x-1", "worker-0"}) {
    EXPECT_THROW(parse_world(bad), ConfigError) << bad;
  }
}

} // namespace
} // namespace cairn::launch::host_filter_test
