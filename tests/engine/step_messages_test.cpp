#include "engine/nets.h"
#include "support/run_ranks.h"

#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/initialize.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

// The messages of a step that are not gradients or parameters, and the groups
// that messages go over.

namespace cairn::step_messages_test {
namespace {

using nlohmann::json;
using testing::TanhStack;

struct Settings {
  int stage = 0;
  std::optional<distributed::MeshShape> shape{};
  std::vector<std::string> flags{};
};

/// The collectives of the third step.
std::vector<distributed::CollectiveRecord> records_of_a_step(
    const distributed::World& world,
    const Settings& settings) {
  const json config{
      {"train_micro_batch_size_per_gpu", 2},
      {"gradient_clipping", 1.0},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 0.1}}}}},
      {"zero_optimization",
       {{"stage", settings.stage},
        {"reduce_bucket_size", 72},
        {"stage3_param_persistence_threshold", 0}}}};
  std::optional<distributed::ProcessMesh> mesh;
  if (settings.shape) {
    mesh.emplace(world.group(), *settings.shape);
  }
  const int data = mesh ? mesh->degree(distributed::Axis::data) : world.size();
  torch::manual_seed(1);
  Engine engine = initialize({.model = std::make_shared<TanhStack>(3, 8),
                              .mesh = mesh,
                              .settings = config::Config::load(
                                  {.json = config.dump(),
                                   .flags = settings.flags,
                                   .world_size = data}),
                              .world = world,
                              .logger = Logger({.least = LogLevel::error})})
                      .engine;
  std::uint64_t before = 0;
  for (int step = 0; step < 3; ++step) {
    const auto records = world.records();
    before = records.empty() ? 0 : records.back().id;
    engine.backward(engine(at::full({2, 8}, 0.1)).square().mean());
    engine.step();
  }
  std::vector<distributed::CollectiveRecord> result;
  for (const auto& record : world.records()) {
    if (record.id > before) {
      result.push_back(record);
    }
  }
  return result;
}

/// Messages that are smaller than any parameter.
int scalars_in(const std::vector<distributed::CollectiveRecord>& records) {
  int count = 0;
  for (const auto& record : records) {
    std::int64_t elements = 0;
    for (const std::int64_t size : record.sizes) {
      elements += size;
    }
    count += elements < 8 ? 1 : 0;
  }
  return count;
}

TEST(StepMessages, ScalarsGoInOneSum) {
  testing::run_ranks({.ranks = 4}, [](const distributed::World& world) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const auto& shape :
           {std::optional<distributed::MeshShape>(),
            std::optional(distributed::MeshShape{.data = 2, .tensor = 2})}) {
        SCOPED_TRACE(fmt::format("stage {}, mesh {}", stage, shape ? 1 : 0));
        // At stage 3 another one compares the order of gathers.
        EXPECT_EQ(
            scalars_in(
                records_of_a_step(world, {.stage = stage, .shape = shape})),
            stage == 3 ? 2 : 1);
      }
    }
  });
}

std::set<std::string> groups_of(
    const std::vector<distributed::CollectiveRecord>& records,
    const std::string& operation) {
  std::set<std::string> groups;
  for (const auto& record : records) {
    if (record.operation.starts_with(operation)) {
      groups.insert(record.group);
    }
  }
  return groups;
}

TEST(StepMessages, GathersDoNotWaitForReductions) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    for (const Settings& settings :
         {Settings{.stage = 3},
          Settings{.stage = 1, .flags = {"--overlap-param-gather"}},
          Settings{.stage = 2, .flags = {"--overlap-param-gather"}}}) {
      SCOPED_TRACE(fmt::format("stage {}", settings.stage));
      const auto records = records_of_a_step(world, settings);
      const auto gathering = groups_of(records, "all_gather");
      const auto reducing = groups_of(records, "reduce_scatter");
      ASSERT_EQ(gathering.size(), 1U);
      ASSERT_EQ(reducing.size(), 1U);
      EXPECT_NE(*gathering.begin(), *reducing.begin());
    }
  });
}

TEST(StepMessages, BuffersOfNcclNeedNccl) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    try {
      records_of_a_step(world, {.stage = 1, .flags = {"--use-nccl-ub"}});
      ADD_FAILURE() << "no error";
    } catch (const ConfigError& error) {
      EXPECT_NE(
          std::string(error.what()).find("which this job does not use"),
          std::string::npos)
          << error.what();
    }
  });
}

} // namespace
} // namespace cairn::step_messages_test
