// The alpha-beta model of messages.

#include "plan/collectives.h"

#include <gtest/gtest.h>

namespace cairn::plan {
namespace {

/// Nodes of 8 ranks: 100 GB/s inside, 10 GB/s for each rank outside.
Cluster two_levels() {
  Cluster cluster;
  cluster.gpus_per_node = 8;
  cluster.levels = {
      {.name = "inside", .ranks = 8, .bandwidth = 100e9, .latency = 1e-6},
      {.name = "outside", .ranks = 1024, .bandwidth = 10e9, .latency = 5e-6}};
  return cluster;
}

TEST(PlanCollectives, ARingInsideANodePassesEveryLinkOnce) {
  const Cluster cluster = two_levels();
  const Network network(cluster, 1);
  const double bytes = 8e9;
  EXPECT_NEAR(network.all_gather({8, 1}, bytes), bytes * 7 / 8 / 100e9, 1e-4);
  EXPECT_NEAR(
      network.all_reduce({8, 1}, bytes),
      2 * bytes * 7 / 8 / 100e9,
      1e-4);
  EXPECT_EQ(network.all_reduce({1, 1}, bytes), 0);
}

TEST(PlanCollectives, RanksOfANodeShareItsLinks) {
  const Cluster cluster = two_levels();
  const Network network(cluster, 1);
  const double bytes = 16e9;
  // All 8 ranks of a node in one group: its ring has all 8 links, 80 GB/s.
  EXPECT_NEAR(network.all_gather({16, 1}, bytes), bytes * 15 / 16 / 80e9, 1e-3);
  // One rank of each node: 8 groups pass at once, each has one link.
  EXPECT_NEAR(network.all_gather({16, 8}, bytes), bytes * 15 / 16 / 10e9, 1e-3);
  // Two of each node.
  EXPECT_NEAR(network.all_gather({16, 4}, bytes), bytes * 15 / 16 / 20e9, 1e-3);
}

TEST(PlanCollectives, SmallSumsOverManyRanksTakeATree) {
  const Cluster cluster = two_levels();
  const Network network(cluster, 1);
  const double tiny = network.all_reduce({1024, 1}, 8);
  EXPECT_LT(tiny, 2 * 11 * 5e-6);
  EXPECT_GT(tiny, 5e-6);
}

TEST(PlanCollectives, AMessageTakesTheLevelThatItCrosses) {
  const Cluster cluster = two_levels();
  const Network network(cluster, 0.5);
  EXPECT_DOUBLE_EQ(network.send(1, 1e9), 1e9 / 50e9 + 1e-6);
  EXPECT_DOUBLE_EQ(network.send(8, 1e9), 1e9 / 5e9 + 5e-6);
}

} // namespace
} // namespace cairn::plan
