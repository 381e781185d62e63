#include "engine/parallel_groups.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

// Engines over NCCL groups that the program has made itself, with the ranks in
// another order than Cairn's own mesh has them.

namespace cairn::engine::parallel_groups_gpu_test {
namespace {

using distributed::ParallelGroups;
using distributed::ProcessGroup;
using distributed::ProcessMesh;
using distributed::World;
using nlohmann::json;
using parallel_groups::GptTraining;
using parallel_groups::groups_of;
using parallel_groups::updates;
using parallel_groups::Values;
using parallel_groups::zero_config;

/// Two ranks that share samples, or the model.
struct Pair {
  Pair(const World& world, bool divides_model)
      : mesh(
            world.group(),
            divides_model ? distributed::MeshShape{.tensor = 2}
                          : distributed::MeshShape{.data = 2}) {
    const ProcessGroup reversed = world.group().subgroup({1, 0}, "mine");
    (divides_model ? groups.tensor : groups.data) = reversed;
  }
  ProcessMesh mesh;
  ParallelGroups groups;
};

/// A GPU may add up in another order each time. Attention does not depend on
/// the bias of keys, so its gradient is rounding, which Adam follows.
void expect_near(const Values& got, const Values& wanted) {
  ASSERT_EQ(got.losses.size(), wanted.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], wanted.losses[i], 1e-4) << i;
    EXPECT_NEAR(got.norms[i], wanted.norms[i], 1e-3) << i;
  }
  ASSERT_EQ(got.names, wanted.names);
  for (std::size_t i = 0; i < got.weights.size(); ++i) {
    if (!got.names[i].ends_with("query_key_value.bias")) {
      EXPECT_LT(
          (got.weights[i] - wanted.weights[i]).abs().max().item<double>(),
          2e-3)
          << got.names[i];
    }
  }
}

void on_one_gpu(const std::function<void(const World&)>& body) {
  testing::run_ranks(testing::ranks_on_one_gpu(2), [&](const World& world) {
    ASSERT_EQ(world.group().backend(), "nccl");
    body(world);
  });
}

TEST(ParallelGroupsNccl, TrainAsCairnsOwnMesh) {
  on_one_gpu([](const World& world) {
    for (const bool divides_model : {false, true}) {
      const Pair pair(world, divides_model);
      for (const int stage : {0, 1, 2, 3}) {
        SCOPED_TRACE(
            ::testing::Message()
            << "ZeRO " << stage << (divides_model ? ", tensor" : ", data"));
        json config = zero_config(stage);
        config["gradient_accumulation_steps"] = divides_model ? 2 : 1;
        const Values wanted =
            GptTraining(world, groups_of(pair.mesh), config, pair.mesh)
                .run(updates);
        EXPECT_LT(wanted.losses.back(), wanted.losses.front());
        expect_near(
            GptTraining(world, pair.groups, config).run(updates),
            wanted);
      }
    }
  });
}

TEST(ParallelGroupsNccl, CarryTheTrafficOfTheEngine) {
  on_one_gpu([](const World& world) {
    const Pair pair(world, false);
    GptTraining training(world, pair.groups, zero_config(3));
    training.step();
    bool mine = false;
    for (const distributed::Traffic& traffic : world.traffic()) {
      mine |= traffic.group == "mine" && traffic.bytes > 0;
    }
    EXPECT_TRUE(mine);
  });
}

TEST(ParallelGroupsNccl, ContinueFromACheckpoint) {
  const testing::TemporaryFolder folder;
  on_one_gpu([&](const World& world) {
    const Pair pair(world, false);
    const json config = zero_config(3);
    GptTraining first(world, pair.groups, config);
    first.run(updates);
    first.engine().save_checkpoint(folder.path());
    first.engine().finish_checkpoint();
    const Values wanted = first.run(2 * updates);
    const auto continued = [&](GptTraining training) {
      training.engine().load_checkpoint(folder.path());
      EXPECT_EQ(training.engine().progress().global_steps, updates);
      expect_near(training.run(2 * updates), wanted);
    };
    continued(GptTraining(world, pair.groups, config));
    continued(GptTraining(world, groups_of(pair.mesh), config, pair.mesh));
  });
}

} // namespace
} // namespace cairn::engine::parallel_groups_gpu_test
