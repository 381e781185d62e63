#include "config/internal/elastic_batch.h"
#include "config/keys/key.h"
#include "support/error_text.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

// The expected values were computed with DeepSpeed's compute_elastic_config
// (commit edaa7221).

namespace cairn::config::elasticity_test {
namespace {

ElasticityConfig large() {
  return {
      .max_train_batch_size = 10000,
      .micro_batch_sizes = {8, 12, 16, 17},
      .min_gpus = 32,
      .max_gpus = 1500,
      .version = 0.1};
}

TEST(Elasticity, CountsRanksInVersion01) {
  const ElasticBatch found = resolve_elastic_batch(large(), 64);
  EXPECT_EQ(
      found.batch,
      (BatchConfig{
          .train = 9792,
          .micro = 17,
          .accumulation = 9,
          .data_parallel = 64}));
  EXPECT_EQ(
      found.valid_world_sizes,
      (std::vector<std::int64_t>{32,  34,  36,  48,  51,  64,  68,  72,
                                 96,  102, 136, 144, 153, 192, 204, 272,
                                 288, 306, 408, 576, 612, 816, 1224}));
  EXPECT_EQ(resolve_elastic_batch(large(), 51).batch.micro, 16);
}

TEST(Elasticity, CountsNodesInVersion02) {
  const ElasticityConfig config{.max_train_batch_size = 2000};
  EXPECT_EQ(resolve_elastic_batch(config, 3).batch.micro, 4);
  EXPECT_EQ(resolve_elastic_batch(config, 3).batch.train, 1680);
  EXPECT_EQ(resolve_elastic_batch(config, 8).batch.micro, 6);
  EXPECT_EQ(resolve_elastic_batch(config, 11).batch.train, 1980);
  EXPECT_EQ(resolve_elastic_batch(config, 13).batch.train, 1976);
  EXPECT_EQ(resolve_elastic_batch(config, 13).batch.micro, 4);
  const ElasticityConfig nodes{
      .max_train_batch_size = 512,
      .micro_batch_sizes = {1, 2, 4, 7},
      .max_gpus = 64,
      .num_gpus_per_node = 4};
  EXPECT_EQ(resolve_elastic_batch(nodes, 16).batch.train, 480);
  EXPECT_EQ(resolve_elastic_batch(nodes, 16).batch.micro, 2);
  EXPECT_EQ(
      resolve_elastic_batch(nodes, 16).valid_world_sizes,
      (std::vector<std::int64_t>{4, 8, 12, 16, 20, 24, 32, 40, 48, 60}));
  EXPECT_EQ(resolve_elastic_batch(nodes, 2).batch.train, 512);
  EXPECT_EQ(resolve_elastic_batch(nodes, 3).batch.train, 510);
}

// A grid of settings and world sizes, computed by DeepSpeed; see
// tests/golden/ds_config/README.md.
TEST(Elasticity, ChoosesAsDeepSpeedDoes) {
  std::ifstream file(
      std::string(CAIRN_GOLDEN_DIR) + "/ds_config/elasticity.json");
  const Json cases = Json::parse(file);
  ASSERT_EQ(cases.size(), 62U);
  for (const Json& each : cases) {
    Json section = each["elasticity"];
    section["enabled"] = true;
    Json valid;
    for (const Json& row : each["worlds"]) {
      const auto world = row[0].get<std::int64_t>();
      const auto found = [&] {
        const Config config = Config::resolve(
            {.json = Json{{"elasticity", section}}.dump(),
             .world_size = world});
        return resolve_elastic_batch(config.deepspeed.elasticity, world);
      };
      if (row.size() > 1) {
        valid = row.size() > 3 ? row[3] : valid;
        EXPECT_EQ(found().batch.train, row[1]) << section << row;
        EXPECT_EQ(found().batch.micro, row[2]) << section << row;
        EXPECT_EQ(Json(found().valid_world_sizes), valid) << section << row;
      } else if (section.value("model_parallel_size", 1) == 1) {
        EXPECT_THROW(found(), ConfigError) << section << row;
      }
    }
  }
}

// DeepSpeed refuses the first of these, although it counts nodes.
TEST(Elasticity, OneNodeOfSharedModelsFits) {
  const ElasticityConfig config{
      .enabled = true,
      .max_train_batch_size = 96,
      .micro_batch_sizes = {2, 4},
      .model_parallel_size = 2,
      .num_gpus_per_node = 4};
  for (const std::int64_t copies : {2, 4, 8}) {
    const ElasticBatch found = resolve_elastic_batch(config, copies);
    EXPECT_EQ(found.batch.train, 96);
    EXPECT_EQ(found.batch.data_parallel, copies);
  }
  EXPECT_EQ(
      describe(resolve_elastic_batch(config, 2)),
      "96 at 2, 4, 6, 8, 12, 16, 24, 48 data-parallel ranks");
  require_model_ranks(config, 2);
  EXPECT_EQ(
      error_text([&] { require_model_ranks(config, 4); }),
      "elasticity.model_parallel_size: another number of ranks shares one copy "
      "of the model (4, not 2); set it to 4");
}

TEST(Elasticity, AWorldThatDoesNotFitLearnsWhichDo) {
  const ElasticityConfig config{
      .max_train_batch_size = 100,
      .micro_batch_sizes = {3, 5},
      .prefer_larger_batch = false,
      .version = 0.1};
  EXPECT_EQ(resolve_elastic_batch(config, 6).batch.train, 90);
  EXPECT_EQ(
      error_text([&] { resolve_elastic_batch(config, 4, "ds.json"); }),
      "ds.json: world size 4 cannot run this elastic batch (batch 90); use one "
      "of 1, 2, 3, 5, 6, 9, 10, 15, 18, 30");
  EXPECT_EQ(
      error_text([&] {
        resolve_elastic_batch(
            {.max_train_batch_size = 4,
             .micro_batch_sizes = {2},
             .min_gpus = 3},
            3);
      }),
      "elasticity: no elastic batch fits (at most 4 samples, micro batches of "
      "2, 3 to 10000 ranks); raise max_train_batch_size, or add a smaller "
      "micro "
      "batch");
}

TEST(Elasticity, ReplacesTheBatchKeys) {
  const std::string elastic =
      R"("elasticity": {"enabled": true, "max_train_batch_size": 2000})";
  const Config config =
      Config::load({.json = "{" + elastic + "}", .world_size = 3});
  EXPECT_EQ(config.deepspeed.batch->train, 1680);
  EXPECT_EQ(config.flags.training.micro_batch_size, 4);
  EXPECT_TRUE(config.warnings.empty());
  EXPECT_EQ(
      Config::load({.json = "{" + elastic + "}", .world_size = 11}).warnings,
      std::vector<std::string>{
          "config:1:2 (elasticity): 11 ranks cannot share the batch of 1680 "
          "that others have; theirs is 1980"});
  EXPECT_EQ(
      error_text([&] {
        Config::load({.json = "{train_batch_size: 8\n" + elastic + "}"});
      }),
      "config:2:16 (elasticity.enabled): elasticity chooses the batch, but "
      "batch keys are given; drop the batch keys, or set "
      "elasticity.ignore_non_elastic_batch_info");
}

TEST(Elasticity, RefusesNonsense) {
  const auto error_of = [](ElasticityConfig config) {
    return error_text([&] { resolve_elastic_batch(config, 1); });
  };
  EXPECT_EQ(
      error_of({.micro_batch_sizes = {}}),
      "elasticity: micro_batch_sizes is empty");
  EXPECT_EQ(
      error_of({.micro_batch_sizes = {4000}}),
      "elasticity: micro_batch_sizes holds 4000, not within 1 to "
      "max_train_batch_size 2000");
  EXPECT_EQ(
      error_of({.version = 0.3}),
      "elasticity: version 0.3 is not 0.1 or 0.2");
  EXPECT_EQ(
      error_of({.min_gpus = 5, .max_gpus = 4}),
      "elasticity: min_gpus 5 is above max_gpus 4");
}

} // namespace
} // namespace cairn::config::elasticity_test
