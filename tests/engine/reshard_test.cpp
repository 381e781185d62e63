#include "engine/nets.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <cairn/engine/initialize.h>
#include <gtest/gtest.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

// Saved by any number of ranks at any stage, loaded by any other: training
// goes on along the same losses.

namespace cairn::reshard_test {
namespace {

using nlohmann::json;

constexpr std::int64_t rows = 12; ///< a step, whatever the number of ranks
constexpr int most_ranks = 4;
constexpr int last_stage = 3;
constexpr int before = 2; ///< steps, then the checkpoint
constexpr int after = 3;

struct Training {
  std::shared_ptr<testing::OddMlp> net;
  Initialized all;
};

Training start(const distributed::World& world, int stage, const json& more) {
  torch::manual_seed(3);
  json config{
      {"train_batch_size", rows},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 0.01}}}}},
      {"scheduler",
       {{"type", "WarmupLR"},
        {"params", {{"warmup_max_lr", 0.02}, {"warmup_num_steps", 6}}}}},
      {"zero_optimization",
       {{"stage", stage},
        {"reduce_bucket_size", 300},
        {"stage3_param_persistence_threshold", 20}}}};
  config.merge_patch(more);
  auto net = std::make_shared<testing::OddMlp>();
  return {
      net,
      initialize(
          {.model = net,
           .config = config.dump(),
           .world = world,
           .logger = Logger({.least = LogLevel::error})})};
}

/// Mean losses of all ranks, of the next steps.
std::vector<double> curve(
    Training& run,
    const distributed::World& world,
    int steps) {
  Engine& engine = run.all.engine;
  const std::int64_t mine = rows / world.size();
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    const at::Tensor tokens = at::remainder(
        at::arange(rows * 8, at::kLong).view({rows, 8}) * 5 +
            engine.global_steps() * 3,
        64);
    const at::Tensor own = tokens.narrow(0, world.rank() * mine, mine);
    const at::Tensor loss = testing::token_loss(engine(own), own);
    engine.backward(loss);
    engine.step();
    losses.push_back(
        world.group()
            .all_reduce(at::full({1}, loss.item<double>(), at::kDouble))
            .wait()
            .item<double>() /
        world.size());
  }
  return losses;
}

std::string tag_of(int ranks, int stage) {
  return std::to_string(ranks) + "ranks-stage" + std::to_string(stage);
}

class Reshard : public ::testing::Test {
 protected:
  void save(int ranks, const json& more) {
    testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
      for (int stage = 0; stage <= last_stage; ++stage) {
        Training run = start(world, stage, more);
        curve(run, world, before);
        run.all.engine.save_checkpoint(folder_.path(), tag_of(ranks, stage));
        const auto losses = curve(run, world, after);
        if (world.rank() == 0) {
          std::ofstream(folder_ / (tag_of(ranks, stage) + ".json"))
              << json(losses);
        }
      }
    });
  }

  /// Everything that was saved, at every stage.
  void load(int ranks, const json& more, double tolerance) {
    testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
      for (int saved_ranks = 1; saved_ranks <= most_ranks; ++saved_ranks) {
        for (int saved_stage = 0; saved_stage <= last_stage; ++saved_stage) {
          const std::string tag = tag_of(saved_ranks, saved_stage);
          std::ifstream file(folder_ / (tag + ".json"));
          const auto wanted = json::parse(file).get<std::vector<double>>();
          for (int stage = 0; stage <= last_stage; ++stage) {
            SCOPED_TRACE(tag + ", loaded at " + tag_of(ranks, stage));
            Training run = start(world, stage, more);
            run.all.engine.load_checkpoint(folder_.path(), tag);
            EXPECT_EQ(run.all.engine.global_steps(), before);
            const auto got = curve(run, world, after);
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
        Training run = start(world, 2, ways[from].first);
        curve(run, world, before);
        run.all.engine.save_checkpoint(folder_.path(), "a");
        const auto wanted = curve(run, world, after);
        run.all.engine.finish_checkpoint();
        Training other = start(world, 3, ways[to].first);
        other.all.engine.load_checkpoint(folder_.path(), "a");
        const auto got = curve(other, world, after);
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
