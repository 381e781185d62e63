#include "engine/training_run.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

// Checkpoints saved by any number of ranks at any stage, loaded by any other:
// training goes on along the same losses.

namespace cairn::reshard_test {
namespace {

using nlohmann::json;
using testing::start_run;
using testing::TrainingRun;

constexpr int most_ranks = 4;
constexpr int last_stage = 3;
constexpr int before = 2; ///< steps, then the checkpoint
constexpr int after = 3;

std::string tag_of(int ranks, int stage) {
  return std::to_string(ranks) + "ranks-stage" + std::to_string(stage);
}

class Reshard : public ::testing::Test {
 protected:
  void save(int ranks, const json& more) {
    testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
      for (int stage = 0; stage <= last_stage; ++stage) {
        TrainingRun run = start_run(world, stage, more);
        run.curve(before);
        run.engine().save_checkpoint(folder_.path(), tag_of(ranks, stage));
        const auto losses = run.curve(after);
        if (world.rank() == 0) {
          std::ofstream(folder_ / (tag_of(ranks, stage) + ".json"))
              << json(losses);
        }
      }
    });
  }

  /// Loads every saved checkpoint, at every stage.
  void load(int ranks, const json& more, double tolerance) {
    testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
      for (int saved_ranks = 1; saved_ranks <= most_ranks; ++saved_ranks) {
        for (int saved_stage = 0; saved_stage <= last_stage; ++saved_stage) {
          const std::string tag = tag_of(saved_ranks, saved_stage);
          std::ifstream file(folder_ / (tag + ".json"));
          const auto wanted = json::parse(file).get<std::vector<double>>();
          for (int stage = 0; stage <= last_stage; ++stage) {
            SCOPED_TRACE(tag + ", loaded at " + tag_of(ranks, stage));
            TrainingRun run = start_run(world, stage, more);
            run.engine().load_checkpoint(folder_.path(), tag);
            EXPECT_EQ(run.engine().progress().global_steps, before);
            const auto got = run.curve(after);
            for (std::size_t i = 0; i < wanted.size(); ++i) {
              EXPECT_NEAR(got[i], wanted[i], tolerance) << i;
            }
          }
        }
      }
    });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Reshard, AnyRanksAndStageFromAnyOther) {
  for (int ranks = 1; ranks <= most_ranks; ++ranks) {
    save(ranks, json::object());
  }
  for (int ranks = 1; ranks <= most_ranks; ++ranks) {
    load(ranks, json::object(), 1e-5);
  }
}

/// Weights in fp32 become masters of bf16 and the other way round; offloaded
/// states come home.
TEST_F(Reshard, AnyPrecisionAndPlace) {
  const testing::TemporaryFolder disk;
  const json plain = json::object();
  const json bf16{{"bf16", {{"enabled", true}}}};
  const json cpu{
      {"zero_optimization", {{"offload_optimizer", {{"device", "cpu"}}}}}};
  const json nvme{
      {"zero_optimization",
       {{"offload_optimizer",
         {{"device", "nvme"}, {"nvme_path", disk.path().string()}}}}}};
  const std::vector<std::pair<json, double>> ways{
      {plain, 1e-5},
      {bf16, 0.05},
      {cpu, 1e-5},
      {nvme, 1e-5}};
  for (std::size_t from = 0; from < ways.size(); ++from) {
    for (std::size_t to = 0; to < ways.size(); ++to) {
      testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
        SCOPED_TRACE(::testing::Message() << from << " to " << to);
        TrainingRun run = start_run(world, 2, ways[from].first);
        run.curve(before);
        run.engine().save_checkpoint(folder_.path(), "a");
        const auto wanted = run.curve(after);
        run.engine().finish_checkpoint();
        TrainingRun other = start_run(world, 3, ways[to].first);
        other.engine().load_checkpoint(folder_.path(), "a");
        const auto got = other.curve(after);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          EXPECT_NEAR(
              got[i],
              wanted[i],
              std::max(ways[from].second, ways[to].second));
        }
      });
    }
  }
}

} // namespace
} // namespace cairn::reshard_test
