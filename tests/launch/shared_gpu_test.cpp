#include "launch/internal/shared_gpu.h"

#include "launch/internal/job_ranks.h"
#include "launch/launched.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

// `cairn launch --share_gpu`.

namespace cairn::launch::fixtures::shared_gpu_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Machine machine{
    .gpus = {"4", "GPU-5"},
    .cores = {0, 1, 2, 3},
    .threads = 4};

std::string refusal(JobRanksOptions options, const Machine& on = machine) {
  options.share_gpu = true;
  try {
    choose_ranks(options, on);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

NodePlan planned(JobRanksOptions options) {
  options.share_gpu = true;
  return plan_node(
      choose_ranks(options, machine),
      0,
      machine,
      {.command = {"train"}, .takes_local_rank = true},
      {.master_port = 7, .share_gpu = true});
}

std::map<std::string, std::string> environment(const RankPlan& rank) {
  std::map<std::string, std::string> result;
  for (const auto& [name, value] : rank.environment) {
    EXPECT_TRUE(result.emplace(name, value).second) << name << " twice";
  }
  return result;
}

TEST(SharedGpu, MakesEveryRankAHostOfItsOwn) {
  const auto plan = planned({.ranks_per_node = 4});
  ASSERT_EQ(plan.ranks.size(), 4U);
  EXPECT_EQ(plan.ranks[3].rank, 3);
  EXPECT_EQ(plan.ranks[3].local_rank, 0);
  EXPECT_THAT(plan.ranks[3].command, ElementsAre("train", "--local_rank=0"));
  EXPECT_EQ(
      environment(plan.ranks[3]),
      (std::map<std::string, std::string>{
          {"RANK", "3"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "0"},
          {"LOCAL_WORLD_SIZE", "1"},
          {"NODE_RANK", "3"},
          {"GROUP_RANK", "3"},
          {"GROUP_WORLD_SIZE", "4"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "7"},
          {"CAIRN_RESTART_COUNT", "0"},
          {"OMP_NUM_THREADS", "1"},
          {"CUDA_VISIBLE_DEVICES", "4"},
          {"NCCL_HOSTID", "cairn-shared-gpu-3"},
          {"NCCL_NET", "Socket"},
          {"NCCL_SOCKET_IFNAME", "lo"},
          {"NCCL_P2P_DISABLE", "1"},
          {"NCCL_SHM_DISABLE", "1"}}));
  EXPECT_EQ(environment(plan.ranks[0]).at("NCCL_HOSTID"), "cairn-shared-gpu-0");
}

TEST(SharedGpu, IsTheOneThatTheFilterNames) {
  for (const JobRanksOptions& options :
       {JobRanksOptions{.include = "localhost:1", .ranks_per_node = 3},
        JobRanksOptions{.exclude = "localhost:0", .ranks_per_node = 3}}) {
    const auto plan = planned(options);
    ASSERT_EQ(plan.ranks.size(), 3U);
    for (const RankPlan& rank : plan.ranks) {
      EXPECT_EQ(environment(rank).at("CUDA_VISIBLE_DEVICES"), "GPU-5");
    }
  }
}

TEST(SharedGpu, IsOnThisMachineAlone) {
  EXPECT_THAT(
      refusal({.ranks_per_node = 2, .node_rank = 0}),
      HasSubstr("--share_gpu with --node_rank; leave --node_rank out"));
  EXPECT_THAT(
      refusal({.nodes = 2, .ranks_per_node = 2}),
      HasSubstr("--share_gpu with --num_nodes 2"));
  EXPECT_THAT(refusal({}), HasSubstr("--share_gpu without --num_gpus"));
  EXPECT_THAT(
      refusal({.ranks_per_node = 2}, Machine{}),
      HasSubstr("this machine has no visible GPU"));
  const TemporaryFolder folder;
  EXPECT_THAT(
      refusal(
          {.hostfile = folder.write("hosts", "a slots=2\nb slots=2\n"),
           .ranks_per_node = 2}),
      HasSubstr("--share_gpu with 2 hosts; name one host with --include"));
}

TEST(SharedGpu, SetsVariablesThatNobodyElseSets) {
  EXPECT_TRUE(is_set_for_shared_gpu("NCCL_NET"));
  EXPECT_FALSE(is_set_for_shared_gpu("NCCL_DEBUG"));
  EXPECT_FALSE(is_set_for_shared_gpu("LOCAL_RANK")); // set for every job
}

void expect_refusal(Words words, const char* message) {
  words.emplace_back("true");
  const auto result = launch(words);
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_THAT(result.err, HasSubstr(message));
}

TEST(SharedGpu, IsRefusedOnTheCommandLineWhereItCannotBe) {
  expect_refusal(
      {"--share_gpu", "--num_gpus=2", "--node_rank=0"},
      "--share_gpu with --node_rank");
  expect_refusal(
      {"--share-gpu", "--num_gpus=2", "--nnodes=2"},
      "--share_gpu with --num_nodes 2");
  expect_refusal(
      {"--share_gpu", "--num_gpus=2", "--print_slurm"},
      "--share_gpu with --print_slurm; leave it out");
  expect_refusal(
      {"--share-gpu", "--num_gpus=2", "--print_kubernetes"},
      "--share_gpu with --print_kubernetes");
  expect_refusal({"--share_gpu"}, "--share_gpu without --num_gpus");
}

TEST(SharedGpu, IsExplainedAsNotForSpeed) {
  const auto result = launch({"--help"});
  EXPECT_THAT(result.out, HasSubstr("--share_gpu"));
  EXPECT_THAT(result.out, HasSubstr("for trying out layouts, not for speed"));
}

} // namespace
} // namespace cairn::launch::fixtures::shared_gpu_test
