#include "zero/internal/group_plan.h"
#include "zero/plan/volume.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace cairn::zero::group_plan_test {
namespace {

using ::testing::ElementsAre;

TEST(GroupPlan, AllShareOneCopyUnlessToldOtherwise) {
  const GroupPlan plan = group_plan({}, 4, 2);
  EXPECT_THAT(plan.shards, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(plan.replicas, ElementsAre(2));
  EXPECT_THAT(plan.inner, ElementsAre(2));
  EXPECT_THAT(plan.outer, ElementsAre(2));
}

TEST(GroupPlan, NeighboursShareACopy) {
  const GroupPlan plan = group_plan({.shard_ranks = 4}, 12, 6);
  EXPECT_THAT(plan.shards, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(plan.replicas, ElementsAre(2, 6, 10));
}

TEST(GroupPlan, NeighboursShareTheSecondCopy) {
  const GroupPlan plan = group_plan({.second_copy_ranks = 2}, 6, 3);
  EXPECT_THAT(plan.shards, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(plan.inner, ElementsAre(2, 3));
  EXPECT_THAT(plan.outer, ElementsAre(1, 3, 5));
}

/// Ranks list each other in the same groups, in every world.
TEST(GroupPlan, RanksAgree) {
  for (const Policy& policy :
       {Policy{},
        Policy{.shard_ranks = 4},
        Policy{.second_copy_ranks = 3},
        Policy{.shard_ranks = 6, .second_copy_ranks = 2}}) {
    std::vector<GroupPlan> plans;
    for (int rank = 0; rank < 24; ++rank) {
      plans.push_back(group_plan(policy, 24, rank));
    }
    for (const GroupPlan& plan : plans) {
      for (const auto part :
           {&GroupPlan::shards,
            &GroupPlan::replicas,
            &GroupPlan::inner,
            &GroupPlan::outer}) {
        for (const int other : plan.*part) {
          EXPECT_EQ(plans[static_cast<std::size_t>(other)].*part, plan.*part);
        }
      }
    }
  }
}

TEST(GroupPlan, GroupsDivideTheRanks) {
  EXPECT_THROW(group_plan({.shard_ranks = 3}, 4, 0), ConfigError);
  EXPECT_THROW(group_plan({.second_copy_ranks = 3}, 4, 0), ConfigError);
}

TEST(GroupPlan, NodesOfAGroup) {
  const std::vector<int> eight{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(gather_ranks(eight, 4, 2), 2);
  EXPECT_EQ(gather_ranks(eight, 8, 4), 4);
  EXPECT_EQ(gather_ranks(eight, 4, 4), 0);
  EXPECT_EQ(gather_ranks(eight, 4, 8), 0);
  EXPECT_EQ(gather_ranks(eight, 4, 1), 0); // the launcher did not say
  // Two of four on a node: the others hold another part of the model.
  EXPECT_EQ(gather_ranks({0, 2, 4, 6, 8, 10, 12, 14}, 4, 4), 2);
  EXPECT_THROW(gather_ranks(eight, 8, 3), ConfigError);
  EXPECT_THROW(gather_ranks({0, 1, 2, 3, 4, 5}, 6, 4), ConfigError);
  const GroupPlan plan =
      group_plan({.shard_ranks = 4, .gather_ranks = 2}, 8, 6);
  EXPECT_THAT(plan.inner, ElementsAre(6, 7));
  EXPECT_THAT(plan.outer, ElementsAre(4, 6));
}

/// A thousand ranks of eight to a node, 16 bits, against ZeRO++'s own account:
/// each gather and the reduction, M bytes each, become M / 2, (almost) nothing
/// beyond the node, and M / 4.
TEST(Volume, OfZeroPlusPlus) {
  constexpr std::int64_t model = std::int64_t{1} << 30;
  const Layout layout(
      {{"weight", {model}}},
      {.world = 1024, .bucket_elements = model});
  const Policy plain{
      .partition_optimizer = true,
      .partition_gradients = true,
      .partition_parameters = true};
  Policy plus = plain;
  plus.second_copy_ranks = 8;
  plus.weight_wire = Wire::int8;
  plus.gradient_wire = Wire::int4;
  const VolumeOptions options{.ranks = 1024};
  const StepVolume before = step_volume(layout, plain, options);
  const StepVolume after = step_volume(layout, plus, options);
  const double m = 2.0 * model; // bytes
  EXPECT_NEAR(static_cast<double>(before.gather), 2 * m, 0.01 * m);
  EXPECT_NEAR(static_cast<double>(before.reduce), m, 0.01 * m);
  EXPECT_EQ(before.gather_inner, 0);
  EXPECT_NEAR(static_cast<double>(after.gather), m / 2, 0.02 * m);
  EXPECT_EQ(after.reduce, 0);
  EXPECT_NEAR(static_cast<double>(after.reduce_inner), m / 4, 0.05 * m);
  EXPECT_NEAR(static_cast<double>(after.reduce_outer), m / 4 / 8, 0.01 * m);
}

} // namespace
} // namespace cairn::zero::group_plan_test
