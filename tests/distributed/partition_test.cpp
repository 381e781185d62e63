#include "distributed/internal/partition.h"

#include "distributed/failures.h"
#include "distributed/internal/buffer_pool.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <gtest/gtest.h>

#include <vector>

namespace cairn::distributed::partition_test {
namespace {

using cairn::testing::run_ranks;

void check_sum(const World& world, const ProcessGroup& group, double wanted) {
  at::Tensor x = failures::ones(world, 3) * (world.rank() + 1);
  EXPECT_EQ(group.all_reduce(x).wait().cpu()[0].item<double>(), wanted);
}

/// Parts of different sizes, one in another order, and a rank on its own.
void parts_of_five_ranks(const World& world) {
  const std::vector<std::vector<int>> parts = {{4, 0}, {1, 3}, {2}};
  const std::vector<int> part_of = {0, 1, 2, 1, 0};
  const std::vector<int>& mine =
      parts[static_cast<std::size_t>(part_of[world.rank()])];
  const ProcessGroup part = partition(world.group(), mine, "part");
  EXPECT_EQ(part.global_ranks(), mine);
  EXPECT_EQ(part.name(), "part");
  const std::vector<double> sums = {6, 6, 3, 6, 6};
  check_sum(world, part, sums[static_cast<std::size_t>(world.rank())]);
  // A part can be cut again, which its ranks alone do.
  const ProcessGroup again = partition(part, {part.rank()}, "alone");
  EXPECT_EQ(again.size(), 1);
  const ProcessGroup second = second_group(part);
  EXPECT_EQ(second.global_ranks(), mine);
  EXPECT_EQ(second.name(), part.size() == 1 ? "part" : "part#2");
  check_sum(world, second, sums[static_cast<std::size_t>(world.rank())]);
  check_sum(world, world.group(), 15);
}

TEST(Partition, CutsAGroupIntoParts) {
  run_ranks({.ranks = 5}, parts_of_five_ranks);
}

TEST(Partition, RefusesRanksWithoutThisOne) {
  run_ranks({.ranks = 2}, [](const World& world) {
    EXPECT_THROW(
        partition(world.group(), {1 - world.rank()}, "other"),
        CommError);
    EXPECT_THROW(
        partition(world.group(), {world.rank(), world.rank()}, "twice"),
        CommError);
    world.group().barrier();
  });
}

TEST(Partition, OfOneRankIsAlone) {
  const ProcessGroup alone;
  EXPECT_EQ(partition(alone, {0}, "a").size(), 1);
  EXPECT_EQ(second_group(alone).size(), 1);
}

// A call of the second group does not wait for one of the first that is under
// way.
TEST(Partition, SecondGroupsDoNotWaitForTheFirst) {
  run_ranks({.ranks = 2}, [](const World& world) {
    const ProcessGroup second = second_group(world.group());
    const at::Tensor x = failures::ones(world, 4);
    if (world.rank() == 0) {
      Pending pending = world.group().all_reduce(x);
      second.barrier(); // rank 1 has not yet called on the first group
      EXPECT_EQ(pending.wait()[0].item<double>(), 2);
    } else {
      second.barrier();
      world.group().all_reduce(x).wait();
    }
  });
}

// Memory for NCCL to send from is refused by whoever asks for it without NCCL.
TEST(Partition, OtherLibrariesHaveNoBufferPool) {
  EXPECT_EQ(make_buffer_pool({ProcessGroup()}), nullptr);
  run_ranks({.ranks = 2}, [](const World& world) {
    EXPECT_EQ(make_buffer_pool({world.group(), ProcessGroup()}), nullptr);
    const BufferScope scope(nullptr);
  });
}

} // namespace
} // namespace cairn::distributed::partition_test
