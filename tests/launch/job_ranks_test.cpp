#include "launch/internal/job_ranks.h"
#include "launch/launched.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::launch::world_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Machine machine_with_gpus(int count) {
  Machine machine;
  for (int gpu = 0; gpu < count; ++gpu) {
    machine.gpus.push_back(std::to_string(gpu));
  }
  return machine;
}

std::string message(const JobRanksOptions& options, int gpus = 4) {
  try {
    choose_ranks(options, machine_with_gpus(gpus));
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class WorldOfHosts : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder_;
  std::string hostfile_ =
      folder_.write("hosts", "a slots=4\nb slots=2\nc slots=4\n");
};

TEST(JobRanks, IsThisMachineWhenNothingElseIsSaid) {
  const auto world = choose_ranks({}, machine_with_gpus(4));
  EXPECT_THAT(world.hosts, ElementsAre(Host{"localhost", {0, 1, 2, 3}}));
  EXPECT_EQ(world.master_addr, "127.0.0.1");
  EXPECT_FALSE(world.master_port);
  EXPECT_EQ(world.size(), 4);
  EXPECT_EQ(choose_ranks({}, machine_with_gpus(0)).size(), 1);
}

TEST(JobRanks, HasAsManyRanksAsAskedFor) {
  EXPECT_EQ(
      choose_ranks({.ranks_per_node = 2}, machine_with_gpus(4)).size(),
      2);
  EXPECT_EQ(
      choose_ranks({.ranks_per_node = 7}, machine_with_gpus(0)).size(),
      7);
  EXPECT_THAT(
      message({.ranks_per_node = 5}),
      HasSubstr("--num_gpus 5, but localhost has 4; ask for fewer; to run "
                "without GPUs set CUDA_VISIBLE_DEVICES to nothing"));
}

TEST(JobRanks, CanBeFilteredOnOneMachine) {
  EXPECT_THAT(
      choose_ranks({.include = "localhost:1,3"}, machine_with_gpus(4)).hosts,
      ElementsAre(Host{"localhost", {1, 3}}));
  EXPECT_THAT(
      choose_ranks({.exclude = "localhost:0"}, machine_with_gpus(4)).hosts,
      ElementsAre(Host{"localhost", {1, 2, 3}}));
}

TEST(JobRanks, RefusesWhatContradictsItself) {
  EXPECT_THAT(
      message({.include = "a", .exclude = "b"}),
      HasSubstr("exclude each"));
  EXPECT_THAT(
      message({.include = "localhost", .ranks_per_node = 1}),
      HasSubstr("cannot be combined"));
  EXPECT_THAT(message({.nodes = 0}), HasSubstr("--num_nodes 0 is too small"));
  EXPECT_THAT(message({.ranks_per_node = -3}), HasSubstr("--num_gpus -3"));
  EXPECT_THAT(message({.node_rank = -1}), HasSubstr("--node_rank -1"));
  EXPECT_THAT(message({.master_port = 70000}), HasSubstr("is not a port"));
  EXPECT_THAT(message({.node_rank = 1}), HasSubstr("there are 1 nodes"));
  EXPECT_THAT(
      message({.ranks_per_node = 2000000000}),
      HasSubstr("more than 4096"));
  EXPECT_THAT(
      message({.hostfile = "/no/such/file"}),
      HasSubstr("/no/such/file"));
}

TEST(JobRanks, OfNodesStartedByHandNeedsAMeetingPlace) {
  EXPECT_THAT(message({.nodes = 2}), HasSubstr("no host file names them"));
  EXPECT_THAT(
      message({.nodes = 2, .node_rank = 1}),
      HasSubstr("--node_rank 1 of 2 nodes without --master_addr"));
  EXPECT_THAT(
      message({.nodes = 2, .node_rank = 2}),
      HasSubstr("--node_rank 2, but there are 2 nodes"));
  const auto world = choose_ranks(
      {.nodes = 2,
       .ranks_per_node = 3,
       .node_rank = 1,
       .master_addr = "10.0.0.1",
       .master_port = 6000},
      machine_with_gpus(0));
  EXPECT_EQ(world.size(), 6);
  EXPECT_EQ(world.first_rank_of(1), 3);
  EXPECT_EQ(world.master_addr, "10.0.0.1");
  EXPECT_EQ(world.master_port, 6000);
}

TEST_F(WorldOfHosts, CountsRanksHostByHost) {
  const auto world =
      choose_ranks({.hostfile = hostfile_}, machine_with_gpus(1));
  EXPECT_EQ(world.size(), 10);
  EXPECT_EQ(world.first_rank_of(0), 0);
  EXPECT_EQ(world.first_rank_of(1), 4);
  EXPECT_EQ(world.first_rank_of(2), 6);
  EXPECT_EQ(world.master_addr, "a");
  EXPECT_EQ(world.master_port, 29500);
}

TEST_F(WorldOfHosts, IsCutToTheFirst) {
  EXPECT_THAT(
      choose_ranks(
          {.hostfile = hostfile_, .nodes = 2, .ranks_per_node = 1},
          Machine())
          .hosts,
      ElementsAre(Host{"a", {0}}, Host{"b", {0}}));
  EXPECT_THAT(
      message({.hostfile = hostfile_, .nodes = 4}),
      HasSubstr("--num_nodes 4, but the host file has 3"));
  EXPECT_THAT(
      message({.hostfile = hostfile_, .ranks_per_node = 3}),
      HasSubstr("--num_gpus 3, but b has 2"));
}

TEST_F(WorldOfHosts, MeetsAtTheFirstThatIsLeft) {
  const auto world = choose_ranks(
      {.hostfile = hostfile_, .exclude = "a", .master_port = 1},
      Machine());
  EXPECT_EQ(world.master_addr, "b");
  EXPECT_EQ(world.master_port, 1);
}

TEST_F(WorldOfHosts, CannotMeetAtLocalhost) {
  const auto file = folder_.write("local", "localhost slots=1\nb slots=1\n");
  EXPECT_THAT(message({.hostfile = file}), HasSubstr("give --master_addr"));
  EXPECT_EQ(
      choose_ranks({.hostfile = file, .master_addr = "a"}, Machine())
          .master_addr,
      "a");
}

} // namespace
} // namespace cairn::launch::world_test
