#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <cairn/distributed/process_mesh.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::distributed::process_mesh_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

int sum_of_ranks(const ProcessMesh& mesh, const ProcessGroup& group) {
  return group.all_reduce(at::full({1}, mesh.rank(), at::kInt))
      .wait()
      .item<int>();
}

TEST(ProcessMesh, BindsEveryAxisToAGroup) {
  cairn::testing::run_ranks(4, [](const ProcessGroup& world) {
    const ProcessMesh mesh(world, {.pipeline = 2, .tensor = 2});
    const int rank = world.rank();
    EXPECT_EQ(mesh.coordinate(Axis::tensor), rank % 2);
    EXPECT_EQ(mesh.coordinate(Axis::pipeline), rank / 2);
    EXPECT_EQ(mesh.degree(Axis::tensor), 2);
    EXPECT_EQ(sum_of_ranks(mesh, mesh.along(Axis::tensor)), rank < 2 ? 1 : 5);
    EXPECT_EQ(
        sum_of_ranks(mesh, mesh.along(Axis::pipeline)),
        rank % 2 == 0 ? 2 : 4);
    EXPECT_EQ(mesh.along(Axis::data).size(), 1);
    EXPECT_EQ(mesh.model_parallel().size(), 4);
    EXPECT_EQ(mesh.embedding().size(), 2);
    EXPECT_EQ(mesh.is_first_stage(), rank < 2);
    EXPECT_EQ(mesh.is_last_stage(), rank >= 2);
    EXPECT_EQ(mesh.next_stage(), (rank + 2) % 4);
    EXPECT_EQ(mesh.previous_stage(), (rank + 2) % 4);
    EXPECT_EQ(
        mesh.along(Axis::tensor).name(),
        rank < 2 ? "tensor:0" : "tensor:1");
  });
}

TEST(ProcessMesh, ExpertsShareTheDataRanks) {
  cairn::testing::run_ranks(4, [](const ProcessGroup& world) {
    const ProcessMesh mesh(world, {.data = 2, .expert = 2, .context = 2});
    const int rank = world.rank();
    EXPECT_EQ(
        mesh.along(Axis::context).global_ranks(),
        mesh.along(Axis::expert).global_ranks());
    EXPECT_EQ(mesh.along(Axis::data).rank(), rank / 2);
    EXPECT_EQ(sum_of_ranks(mesh, mesh.data_context()), 6);
    EXPECT_EQ(
        sum_of_ranks(mesh, mesh.along(Axis::expert_data)),
        2 * (rank % 2) + 2);
    const Axis both[] = {Axis::tensor, Axis::data};
    const ProcessGroup group = mesh.make_group(both);
    EXPECT_THAT(group.global_ranks(), ElementsAre(rank % 2, rank % 2 + 2));
    EXPECT_EQ(mesh.embedding().size(), 1);
  });
}

TEST(ProcessMesh, MiddleStagesHoldNoEmbedding) {
  cairn::testing::run_ranks(3, [](const ProcessGroup& world) {
    const ProcessMesh mesh(world, {.pipeline = 3});
    if (world.rank() == 1) {
      EXPECT_EQ(mesh.embedding().size(), 1);
    } else {
      EXPECT_THAT(mesh.embedding().global_ranks(), ElementsAre(0, 2));
      EXPECT_EQ(sum_of_ranks(mesh, mesh.embedding()), 2);
    }
  });
}

TEST(ProcessMesh, RefusesDegreesThatDoNotFillTheWorld) {
  try {
    const ProcessMesh mesh(ProcessGroup(), {.tensor = 2});
    FAIL() << "not refused";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("world size 1"));
  }
}

TEST(ProcessMesh, TakesGroupsOfTheProgram) {
  cairn::testing::run_ranks(4, [](const ProcessGroup& world) {
    const int rank = world.rank();
    const int pair = rank / 2 * 2;
    const ProcessGroup data = world.subgroup({pair, pair + 1}, "mine");
    const ProcessGroup tensor = world.split(rank % 2);
    const ProcessMesh mesh =
        ProcessMesh::from_groups(world, {.data = data, .tensor = tensor});
    EXPECT_EQ(mesh.degree(Axis::data), 2);
    EXPECT_EQ(mesh.degree(Axis::tensor), 2);
    EXPECT_EQ(mesh.coordinate(Axis::data), rank % 2);
    EXPECT_EQ(mesh.coordinate(Axis::tensor), rank / 2);
    EXPECT_EQ(mesh.coordinate(2, Axis::tensor), 1);
    EXPECT_EQ(mesh.coordinate(2, Axis::data), 0);
    // They are the very groups, not other ones of the same ranks.
    EXPECT_EQ(&mesh.along(Axis::data).name(), &data.name());
    EXPECT_EQ(&mesh.data_context().name(), &data.name());
    EXPECT_EQ(&mesh.along(Axis::expert_data).name(), &data.name());
    EXPECT_EQ(&mesh.along(Axis::tensor).name(), &tensor.name());
    EXPECT_EQ(&mesh.model_parallel().name(), &tensor.name());
    EXPECT_EQ(mesh.along(Axis::context).size(), 1);
    EXPECT_THAT(
        mesh.make_group(tensor_data).global_ranks(),
        ElementsAre(0, 2, 1, 3));
  });
}

TEST(ProcessMesh, TakesStagesOfTheProgram) {
  cairn::testing::run_ranks(4, [](const ProcessGroup& world) {
    const int rank = world.rank();
    // The later ranks come first, and stages are neighbours.
    const std::vector<int> stages =
        rank < 2 ? std::vector<int>{1, 0} : std::vector<int>{3, 2};
    const std::vector<int> sequence =
        rank % 2 == 0 ? std::vector<int>{2, 0} : std::vector<int>{3, 1};
    const ProcessMesh mesh = ProcessMesh::from_groups(
        world,
        {.pipeline = world.subgroup(stages),
         .context = world.subgroup(sequence)});
    EXPECT_EQ(mesh.is_first_stage(), rank % 2 == 1);
    EXPECT_EQ(mesh.next_stage(), rank < 2 ? 1 - rank : 5 - rank);
    EXPECT_EQ(mesh.previous_stage(), mesh.next_stage());
    EXPECT_EQ(mesh.coordinate(Axis::context), rank < 2 ? 1 : 0);
    EXPECT_EQ(mesh.model_parallel().global_ranks(), stages);
    EXPECT_EQ(mesh.embedding().global_ranks(), stages);
    EXPECT_EQ(mesh.data_context().global_ranks(), sequence);
    EXPECT_EQ(sum_of_ranks(mesh, mesh.data_context()), rank % 2 == 0 ? 2 : 4);
  });
}

TEST(ProcessMesh, RefusesGroupsOnEveryRank) {
  cairn::testing::run_ranks(4, [](const ProcessGroup& world) {
    const int rank = world.rank();
    const ProcessGroup half = world.split(rank / 2);
    const auto refused = [&](const ParallelGroups& groups) {
      try {
        ProcessMesh::from_groups(world, groups);
        ADD_FAILURE() << "not refused";
      } catch (const UsageError& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    EXPECT_THAT(refused({.data = half}), HasSubstr("multiply to the 4 ranks"));
    EXPECT_THAT(
        refused({.data = half, .tensor = half}),
        HasSubstr("do not cross in a grid"));
    // One rank alone is wrong; all hear of it.
    const ProcessGroup other = world.split(rank % 2);
    EXPECT_THAT(
        refused({.data = half, .tensor = rank == 3 ? half : other}),
        HasSubstr("were given different groups"));
    // A right set is taken after the wrong ones.
    const ProcessMesh mesh =
        ProcessMesh::from_groups(world, {.data = half, .tensor = other});
    EXPECT_EQ(sum_of_ranks(mesh, mesh.along(Axis::data)), rank < 2 ? 1 : 5);
  });
}

TEST(ProcessMesh, GroupsOfOneRankAreAMesh) {
  const ProcessMesh mesh = ProcessMesh::from_groups(ProcessGroup(), {});
  EXPECT_EQ(mesh.layout().world_size(), 1);
  EXPECT_EQ(mesh.data_context().size(), 1);
}

TEST(ProcessMesh, OneRankIsAMeshToo) {
  const ProcessMesh mesh(ProcessGroup(), {});
  EXPECT_TRUE(mesh.is_first_stage());
  EXPECT_TRUE(mesh.is_last_stage());
  EXPECT_EQ(mesh.next_stage(), 0);
  EXPECT_EQ(mesh.along(Axis::expert).size(), 1);
}

} // namespace
} // namespace cairn::distributed::process_mesh_test
