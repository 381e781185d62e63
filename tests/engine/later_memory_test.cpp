#include "nn/counting_allocator.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <cairn/engine/initialize.h>
#include <cairn/model/parameters.h>
#include <cairn/model/presets.h>
#include <cairn/models/transformer.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

// A model that is built without memory never needs more than its states, as
// the stage shares them out, and a few buckets: at the start, in training and
// while it is saved.

namespace cairn::later_memory_test {
namespace {

using nlohmann::json;

constexpr std::int64_t bucket = 130'000; ///< elements

model::ModelDescription described() {
  return model::gpt_description(
      {.layers = 12,
       .hidden = 128,
       .heads = 4,
       .sequence = 32,
       .vocabulary = 512});
}

struct Case {
  int stage = 0;
  std::string optimizer{}; ///< "cpu" or "nvme"; empty: it stays
  std::string parameters{};
};

json config_of(const Case& row, const std::string& folder) {
  json config{
      {"train_micro_batch_size_per_gpu", 1},
      {"bf16", {{"enabled", true}}},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-3}}}}},
      {"zero_optimization",
       {{"stage", row.stage},
        {"reduce_bucket_size", bucket},
        {"stage3_param_persistence_threshold", 0},
        {"stage3_max_live_parameters", 2 * bucket},
        {"stage3_prefetch_bucket_size", bucket},
        {"stage3_max_reuse_distance", 0}}}};
  const auto offload = [&](const char* key, const std::string& device) {
    if (!device.empty()) {
      config["zero_optimization"][key] = {
          {"device", device},
          {"nvme_path", folder},
          {"buffer_count", 4},
          {"max_in_cpu", 0}};
    }
  };
  offload("offload_optimizer", row.optimizer);
  offload("offload_param", row.parameters);
  if (config["zero_optimization"].contains("offload_optimizer")) {
    config["zero_optimization"]["offload_optimizer"].erase("max_in_cpu");
  }
  return config;
}

/// Bytes of the states that stay in memory between steps: 2 for a bf16 weight,
/// 4 for a gradient, 12 for the optimizer's. A disk's own buffers, as many as
/// `buffer_count`, are not in the allocator's count.
double states(const Case& row, double elements, double ranks) {
  const auto share = [&](int stage) {
    return row.stage >= stage ? elements / ranks : elements;
  };
  double bytes = 4 * share(2);
  bytes += row.parameters == "nvme" ? 0 : 2 * share(3);
  bytes += row.optimizer == "nvme" ? 0 : 12 * share(1);
  return bytes;
}

void check(
    const distributed::World& world,
    const std::filesystem::path& folder,
    const Case& row) {
  SCOPED_TRACE(
      ::testing::Message() << "stage " << row.stage << ", optimizer "
                           << row.optimizer << ", parameters " << row.parameters
                           << ", " << world.size() << " ranks");
  testing::CountingAllocator counter;
  const auto elements =
      static_cast<double>(model::count_parameters(described()).all);
  const double kept = states(row, elements, world.size());
  const double gradients = 4 * elements / (row.stage >= 2 ? world.size() : 1);
  constexpr double one_bucket = 8 * bucket; // its weights and a copy, in fp32
  const auto expect_at_most = [&](const char* when, double wanted) {
    EXPECT_LT(static_cast<double>(counter.peak()), wanted) << when;
    counter.reset_peak();
  };

  const auto later = std::make_shared<nn::LaterValues>();
  const auto model = models::make_model(described(), {.later = later});
  EXPECT_LT(counter.peak(), 1'000'000) << "it has no memory yet";
  auto [engine, optimizer, loader, schedule] = initialize(
      {.model = model,
       .later_values = later,
       .config = config_of(row, folder.string()).dump(),
       .world = world,
       .logger = Logger({.least = LogLevel::error})});
  expect_at_most("at the start", kept - gradients + one_bucket);

  const at::Tensor tokens = at::arange(32, at::kLong).view({1, 32});
  for (int i = 0; i < 2; ++i) {
    const auto output = engine.forward<models::ModelOutput>(
        models::ModelInput{.tokens = tokens, .labels = tokens});
    engine.backward(output.loss);
    engine.step();
  }
  constexpr double activations = 2e6;
  expect_at_most("in training", kept + 2 * one_bucket + activations);

  const auto saved = folder /
      fmt::format("saved_{}{}{}_{}",
                  row.stage,
                  row.optimizer,
                  row.parameters,
                  world.size());
  engine.save_checkpoint(saved, "one", {}, {.wait = true});
  expect_at_most("while saving", kept + 2 * one_bucket);
  engine.load_checkpoint(saved, "one");
  expect_at_most("while loading", kept + 2 * one_bucket);
}

TEST(LaterMemory, NoRankHoldsTheWholeModel) {
  const testing::TemporaryFolder folder;
  for (const int ranks : {2, 4}) {
    testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
      const auto check_row = [&](const Case& row) {
        check(world, folder.path(), row);
      };
      check_row({.stage = 3});
      check_row({.stage = 3, .optimizer = "nvme", .parameters = "nvme"});
      if (ranks > 2) {
        return;
      }
      for (const int stage : {1, 2}) {
        check_row({.stage = stage});
        check_row({.stage = stage, .optimizer = "nvme"});
      }
      check_row({.stage = 3, .optimizer = "cpu", .parameters = "cpu"});
    });
  }
}

} // namespace
} // namespace cairn::later_memory_test
