#include "launch/internal/node_plan.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace cairn::launch::node_plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::map<std::string, std::string> environment(const RankPlan& rank) {
  std::map<std::string, std::string> result;
  for (const auto& [name, value] : rank.environment) {
    result[name] = value;
  }
  return result;
}

const JobRanks world{
    .hosts = {{"a", {0, 1}}, {"b", {1, 3}}},
    .master_addr = "a",
    .master_port = 29500};
const Machine machine{
    .gpus = {"0", "1", "2", "GPU-3"},
    .cores = {0, 1, 2, 3, 4, 5, 6, 7, 8},
    .threads = 9};
const Program program{.command = {"train", "--x"}, .takes_local_rank = true};

TEST(NodePlan, TellsEveryRankItsPlace) {
  const auto plan = plan_node(
      world,
      1,
      machine,
      program,
      {.master_port = 4,
       .restart_count = 2,
       .environment = {{"MINE", "1"}, {"RANK", "no"}}});
  EXPECT_EQ(plan.host, "b");
  EXPECT_EQ(plan.node_rank, 1);
  ASSERT_EQ(plan.ranks.size(), 2U);
  EXPECT_EQ(plan.ranks[1].rank, 3);
  EXPECT_EQ(plan.ranks[1].local_rank, 1);
  EXPECT_THAT(
      plan.ranks[1].command,
      ElementsAre("train", "--x", "--local_rank=1"));
  EXPECT_THAT(plan.ranks[1].cores, IsEmpty());
  EXPECT_EQ(
      environment(plan.ranks[1]),
      (std::map<std::string, std::string>{
          {"MINE", "1"},
          {"RANK", "3"},
          {"LOCAL_RANK", "1"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"NODE_RANK", "1"},
          {"GROUP_RANK", "1"},
          {"GROUP_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "a"},
          {"MASTER_PORT", "4"},
          {"CAIRN_RESTART_COUNT", "2"},
          {"OMP_NUM_THREADS", "4"},
          {"CUDA_VISIBLE_DEVICES", "1,GPU-3"}}));
}

TEST(NodePlan, LeavesOutWhatIsNotWanted) {
  const auto plan = plan_node(
      world,
      0,
      Machine{.gpus = {}, .cores = {0}, .threads = 1},
      {.command = {"train"}, .takes_local_rank = false},
      {.omp_threads_chosen = true});
  EXPECT_THAT(plan.ranks[0].command, ElementsAre("train"));
  const auto variables = environment(plan.ranks[0]);
  EXPECT_EQ(variables.count("OMP_NUM_THREADS"), 0U);
  EXPECT_EQ(variables.count("CUDA_VISIBLE_DEVICES"), 0U);
}

TEST(NodePlan, NeverGivesLessThanAThread) {
  const auto plan = plan_node(
      world,
      0,
      Machine{.gpus = {}, .cores = {0}, .threads = 1},
      program,
      {});
  EXPECT_EQ(environment(plan.ranks[0]).at("OMP_NUM_THREADS"), "1");
}

TEST(NodePlan, SharesOutCores) {
  const auto plan =
      plan_node(world, 0, machine, program, {.bind_cores = {0, 2, 4, 6, 8}});
  EXPECT_THAT(plan.ranks[0].cores, ElementsAre(0, 2));
  EXPECT_THAT(plan.ranks[1].cores, ElementsAre(4, 6));
  EXPECT_EQ(environment(plan.ranks[0]).at("OMP_NUM_THREADS"), "2");
  EXPECT_THROW(
      plan_node(world, 0, machine, program, {.bind_cores = {5}}),
      ConfigError);
}

TEST(NodePlan, RefusesMoreSlotsThanGpus) {
  const Machine small{.gpus = {"0", "1", "2"}, .cores = {0}, .threads = 1};
  EXPECT_NO_THROW(plan_node(world, 0, small, program, {}));
  EXPECT_THROW(plan_node(world, 1, small, program, {}), ConfigError);
}

} // namespace
} // namespace cairn::launch::node_plan_test
