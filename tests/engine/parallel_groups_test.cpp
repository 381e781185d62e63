#include "engine/parallel_groups.h"
#include "support/error_text.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/base/error.h>
#include <cairn/engine/initialize.h>
#include <cairn/pipeline/pipeline_module.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Engines over process groups that the program has made itself. Ranks are in
// another order than Cairn's own mesh would have them.

namespace cairn::engine::parallel_groups_test {
namespace {

using distributed::ParallelGroups;
using distributed::ProcessGroup;
using distributed::ProcessMesh;
using distributed::World;
using nlohmann::json;
using parallel_groups::expect_same;
using parallel_groups::GptTraining;
using parallel_groups::groups_of;
using parallel_groups::rows;
using parallel_groups::updates;
using parallel_groups::Values;
using parallel_groups::zero_config;
using ::testing::HasSubstr;

/// Four ranks whose neighbours share their samples' gradients: data groups {0,
/// 1} and {2, 3}, tensor groups {0, 2} and {1, 3}.
ParallelGroups neighbours_in_data(const World& world) {
  return {
      .data = world.group().split(world.rank() / 2),
      .tensor = world.group().split(world.rank() % 2)};
}

/// Groups whose ranks are in no order at all: tensor groups {3, 0} and {2, 1},
/// data groups {2, 3} and {1, 0}.
ParallelGroups shuffled(const World& world) {
  const int rank = world.rank();
  using Ranks = std::vector<int>;
  return {
      .data = world.group().subgroup(rank >= 2 ? Ranks{2, 3} : Ranks{1, 0}),
      .tensor = world.group().subgroup(
          rank == 0 || rank == 3 ? Ranks{3, 0} : Ranks{2, 1})};
}

GptTraining on_own_mesh(const World& world, const json& config) {
  const ProcessMesh mesh(world.group(), {.data = 2, .tensor = 2});
  return {world, groups_of(mesh), config, mesh};
}

TEST(ParallelGroups, TrainAsCairnsOwnMesh) {
  testing::run_ranks({.ranks = 4}, [](const World& world) {
    json whole = zero_config(0);
    whole["gradient_accumulation_steps"] = 2;
    const Values alone =
        GptTraining(world, {}, whole, ProcessMesh(ProcessGroup(), {}))
            .run(updates);
    const ParallelGroups neighbours = neighbours_in_data(world);
    const ParallelGroups any = shuffled(world);
    for (int stage = 0; stage <= 3; ++stage) {
      SCOPED_TRACE("ZeRO " + std::to_string(stage));
      const json config = zero_config(stage);
      const Values wanted = on_own_mesh(world, config).run(updates);
      EXPECT_LT(wanted.losses.back(), wanted.losses.front());
      expect_same(GptTraining(world, neighbours, config).run(updates), wanted);
      expect_same(GptTraining(world, any, config).run(updates), wanted);
      for (int i = 0; i < updates; ++i) {
        EXPECT_NEAR(wanted.losses[i], alone.losses[i], 1e-4) << i;
        EXPECT_NEAR(wanted.norms[i], alone.norms[i], 1e-3) << i;
      }
    }
  });
}

TEST(ParallelGroups, MayBeCutAgainByZero) {
  testing::run_ranks({.ranks = 4}, [](const World& world) {
    const ProcessMesh mesh(world.group(), {.data = 4});
    const ParallelGroups any{.data = world.group().subgroup({3, 1, 0, 2})};
    for (const char* key : {"mics_shard_size", "zero_hpz_partition_size"}) {
      SCOPED_TRACE(key);
      json config = zero_config(3);
      config["zero_optimization"][key] = 2;
      expect_same(
          GptTraining(world, any, config).run(updates),
          GptTraining(world, groups_of(mesh), config, mesh).run(updates));
    }
  });
}

TEST(ParallelGroups, CarryTheTrafficOfTheEngine) {
  testing::run_ranks({.ranks = 4}, [](const World& world) {
    const int rank = world.rank();
    const int pair = rank / 2 * 2;
    const ParallelGroups groups{
        .data = world.group().subgroup({pair, pair + 1}, "my data"),
        .tensor = world.group().subgroup({rank % 2, rank % 2 + 2}, "my model")};
    GptTraining training(world, groups, zero_config(3));
    training.step();
    bool data = false;
    bool tensor = false;
    for (const distributed::Traffic& traffic : world.traffic()) {
      data |= traffic.group == "my data";
      tensor |= traffic.group == "my model";
      EXPECT_FALSE(
          traffic.group.starts_with("data") ||
          traffic.group.starts_with("tensor"))
          << traffic.group;
    }
    EXPECT_TRUE(data && tensor);
  });
}

TEST(ParallelGroups, SkipAnOverflowOfOneRankTogether) {
  testing::run_ranks({.ranks = 4}, [](const World& world) {
    for (const int stage : {0, 3}) {
      json config = zero_config(stage);
      config["fp16"] = {{"enabled", true}, {"initial_scale_power", 4}};
      GptTraining training(world, neighbours_in_data(world), config);
      training.step(world.rank() == 2 ? 1e30 : 1);
      EXPECT_EQ(training.engine().progress().skipped_steps, 1);
      training.step();
      EXPECT_EQ(training.engine().progress().skipped_steps, 1);
    }
  });
}

TEST(ParallelGroups, ContinueFromACheckpoint) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 4}, [&](const World& world) {
    const ParallelGroups groups = neighbours_in_data(world);
    for (int stage = 0; stage <= 3; ++stage) {
      SCOPED_TRACE("ZeRO " + std::to_string(stage));
      const json config = zero_config(stage);
      GptTraining first(world, groups, config);
      first.run(updates);
      const auto place = folder / std::to_string(stage);
      first.engine().save_checkpoint(place);
      first.engine().finish_checkpoint();
      const Values wanted = first.run(2 * updates);

      const auto continued = [&](GptTraining training) {
        training.engine().load_checkpoint(place);
        EXPECT_EQ(training.engine().progress().global_steps, updates);
        expect_same(training.run(2 * updates), wanted);
      };
      continued(GptTraining(world, groups, config));
      continued(GptTraining(world, shuffled(world), config));
      continued(on_own_mesh(world, config));
    }
  });
}

struct Numbers {
  std::size_t size() const { return 8; }
  std::pair<at::Tensor, at::Tensor> get(std::size_t index) const {
    const at::Tensor value = at::full({1}, static_cast<double>(index));
    return {value.to(at::kFloat), value.to(at::kFloat)};
  }
};

TEST(ParallelGroups, GiveTheRanksOfOneModelTheSameSamples) {
  testing::run_ranks({.ranks = 4}, [](const World& world) {
    const ParallelGroups groups = neighbours_in_data(world);
    auto all = initialize(
        {.model = std::make_shared<torch::nn::LinearImpl>(1, 1),
         .training_data = Numbers{},
         .parallel_groups = groups,
         .config = zero_config(0).dump(),
         .world = world,
         .logger = Logger({.least = LogLevel::error})});
    at::Tensor seen = at::zeros({8});
    for (auto& batch : all.loader) {
      seen.index_add_(
          0,
          batch.input.flatten().to(at::kLong),
          at::ones({batch.input.numel()}));
    }
    EXPECT_EQ(seen.sum().item<double>(), 4);
    const at::Tensor of_model = groups.tensor.all_reduce(seen.clone()).wait();
    EXPECT_TRUE(at::equal(of_model, seen * 2));
    const at::Tensor of_data = groups.data.all_reduce(seen.clone()).wait();
    EXPECT_TRUE(at::equal(of_data, at::ones({8})));
  });
}

/// [linear, tanh | linear], each layer with the same values on every rank.
std::shared_ptr<pipeline::PipelineModule> stage_of(const ProcessGroup& stages) {
  const auto layer = [](double phase) {
    return pipeline::LayerSpec::built_by([phase] {
             torch::nn::Linear linear(4, 4);
             const at::NoGradGuard no_grad;
             linear->weight.copy_(
                 at::sin(at::arange(16, at::kFloat) + phase).view({4, 4}));
             linear->bias.zero_();
             return linear;
           })
        .named("layer" + std::to_string(static_cast<int>(phase)));
  };
  return std::make_shared<pipeline::PipelineModule>(
      std::vector<pipeline::LayerSpec>{
          layer(1),
          [](const at::Tensor& x) { return at::tanh(x); },
          layer(2)},
      pipeline::PipelineModuleOptions{
          .stage = stages.rank(),
          .stages = stages.size(),
          .partition = {.kind = pipeline::PartitionMethod::Kind::uniform},
          .loss = [](const at::Tensor& y, const at::Tensor& label) {
            return at::mse_loss(y, label);
          }});
}

Values train_stages(
    const World& world,
    const ParallelGroups& groups,
    const std::optional<ProcessMesh>& mesh = std::nullopt) {
  json config = zero_config(1);
  config["gradient_accumulation_steps"] = 2;
  Engine engine = initialize({.model = stage_of(groups.pipeline),
                              .mesh = mesh,
                              .parallel_groups =
                                  mesh ? std::nullopt : std::optional(groups),
                              .config = config.dump(),
                              .world = world,
                              .logger = Logger({.least = LogLevel::error})})
                      .engine;
  Values values;
  for (int i = 0; i < updates; ++i) {
    int number = 2 * (2 * i + groups.data.rank());
    const at::Tensor loss = engine.train_batch([&] {
      const at::Tensor x =
          at::cos(at::arange(rows * 4, at::kFloat) + number++).view({rows, 4});
      return std::optional<pipeline::MicroBatch>({{x}, {x * x}});
    });
    values.losses.push_back(
        groups.data.all_reduce(loss.to(at::kDouble).view({1}))
            .wait()
            .item<double>());
    values.norms.push_back(engine.gradient_norm().value());
  }
  return values;
}

TEST(ParallelGroups, MayHaveStagesOfAPipeline) {
  testing::run_ranks({.ranks = 4}, [](const World& world) {
    const ProcessMesh mesh(world.group(), {.data = 2, .pipeline = 2});
    const Values wanted = train_stages(world, groups_of(mesh), mesh);
    EXPECT_LT(wanted.losses.back(), wanted.losses.front());
    expect_same(
        train_stages(
            world,
            {.data = world.group().split(world.rank() % 2),
             .pipeline = world.group().split(world.rank() / 2)}),
        wanted);
  });
}

TEST(ParallelGroups, AreRefusedOnEveryRankIfTheyAreNoMesh) {
  testing::run_ranks({.ranks = 4}, [](const World& world) {
    const auto refusal = [&](const ParallelGroups& groups,
                             const std::optional<ProcessMesh>& mesh = {}) {
      return error_text<UsageError>([&] {
        initialize(
            {.model = std::make_shared<torch::nn::LinearImpl>(4, 4),
             .mesh = mesh,
             .parallel_groups = groups,
             .config = zero_config(0).dump(),
             .world = world,
             .logger = Logger({.least = LogLevel::error})});
      });
    };
    const ParallelGroups right = neighbours_in_data(world);
    EXPECT_THAT(
        refusal({.tensor = right.tensor}),
        HasSubstr("do not multiply to the 4 ranks"));
    EXPECT_THAT(
        refusal({.data = right.data, .tensor = right.data}),
        HasSubstr("do not cross in a grid"));
    EXPECT_THAT(
        refusal(
            world.rank() == 1
                ? ParallelGroups{.data = right.tensor, .tensor = right.data}
                : right),
        HasSubstr("different groups"));
    EXPECT_THAT(
        refusal(right, ProcessMesh(world.group(), {.data = 4})),
        HasSubstr(".mesh and .parallel_groups"));
  });
}

} // namespace
} // namespace cairn::engine::parallel_groups_test
