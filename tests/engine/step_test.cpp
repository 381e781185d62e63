#include "engine/nets.h"
#include "monitor/event_reader.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/TensorOperators.h>
#include <cairn/engine/initialize.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

// The order of work in a step, and the engine's log of it.

namespace cairn::step_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TanhStack;

const Logger quiet({.least = LogLevel::error});

/// Counts the reductions under way when backward comes to its first layer.
struct WatchedStack : torch::nn::Module {
  explicit WatchedStack(distributed::World over) : world(std::move(over)) {
    register_module("first", first);
    register_module("rest", rest);
  }
  at::Tensor forward(const at::Tensor& x) {
    const std::size_t before = reductions();
    at::Tensor h = first->forward(x);
    h.register_hook(
        [this, before](const at::Tensor&) { seen = reductions() - before; });
    return rest->forward(h).square().mean();
  }
  std::size_t reductions() const {
    std::size_t count = 0;
    for (const auto& record : world.records()) {
      count += record.operation.starts_with("all_reduce") ||
          record.operation.starts_with("reduce_scatter");
    }
    return count;
  }
  distributed::World world;
  std::size_t seen = 0;
  std::shared_ptr<TanhStack> first = std::make_shared<TanhStack>(1, 8);
  std::shared_ptr<TanhStack> rest = std::make_shared<TanhStack>(3, 8);
};

struct Stepped {
  std::size_t reductions = 0; ///< when backward came to the first layer
  at::Tensor weights{};
};

Stepped step_with(
    const distributed::World& world,
    int stage,
    const std::vector<std::string>& flags) {
  const json settings{
      {"train_micro_batch_size_per_gpu", 2},
      {"optimizer", {{"type", "SGD"}, {"params", {{"lr", 0.1}}}}},
      {"zero_optimization", {{"stage", stage}, {"reduce_bucket_size", 72}}}};
  torch::manual_seed(1);
  auto net = std::make_shared<WatchedStack>(world);
  Engine engine = initialize({.model = net,
                              .settings = config::Config::load(
                                  {.json = settings.dump(),
                                   .flags = flags,
                                   .world_size = world.size()}),
                              .world = world,
                              .logger = quiet})
                      .engine;
  engine.backward(engine(at::full({2, 8}, 0.1 * (1 + world.rank()))));
  engine.step();
  return {net->seen, engine.full_parameter("first.layers.0.weight")};
}

TEST(Step, DdpImplChoosesWhenGradientsAreReduced) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    for (const int stage : {0, 1, 2}) {
      SCOPED_TRACE(fmt::format("stage {}", stage));
      const Stepped local = step_with(world, stage, {"--DDP-impl", "local"});
      const Stepped torch = step_with(world, stage, {"--DDP-impl", "torch"});
      EXPECT_EQ(local.reductions, 0) << "after backward";
      EXPECT_GT(torch.reductions, 0) << "beside backward";
      EXPECT_GT(step_with(world, stage, {}).reductions, 0) << "the default";
      EXPECT_TRUE(at::equal(local.weights, torch.weights));
    }
  });
}

/// Step and value of each line after the first.
std::map<std::int64_t, double> points_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  std::map<std::int64_t, double> points;
  while (std::getline(in, line)) {
    const auto comma = line.find(',');
    points[std::stoll(line)] = std::stod(line.substr(comma + 1));
  }
  return points;
}

json with_files(const fs::path& folder) {
  return {
      {"train_micro_batch_size_per_gpu", 2},
      {"gradient_accumulation_steps", 2},
      {"optimizer", {{"type", "SGD"}, {"params", {{"lr", 0.5}}}}},
      {"scheduler",
       {{"type", "WarmupLR"},
        {"params",
         {{"warmup_min_lr", 0.0},
          {"warmup_max_lr", 0.5},
          {"warmup_num_steps", 4},
          {"warmup_type", "linear"}}}}},
      {"fp16", {{"enabled", true}, {"initial_scale_power", 4}}},
      {"wall_clock_breakdown", true},
      {"tensorboard",
       {{"enabled", true},
        {"output_path", (folder / "board").string()},
        {"job_name", "run"}}},
      {"csv_monitor",
       {{"enabled", true},
        {"output_path", (folder / "csv").string()},
        {"job_name", "run"}}}};
}

TEST(Step, GoesToTheFilesOfTheJson) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    std::map<std::int64_t, double> losses;
    {
      torch::manual_seed(1);
      auto made = initialize(
          {.model = std::make_shared<TanhStack>(2, 8),
           .config = with_files(folder.path()).dump(),
           .world = world,
           .logger = quiet});
      Engine& engine = made.engine;
      for (int step = 0; step < 3; ++step) {
        double sum = 0;
        for (int pass = 0; pass < 2; ++pass) {
          const at::Tensor loss =
              engine(at::full({2, 8}, 0.1 * (1 + pass + world.rank())))
                  .square()
                  .mean();
          sum += loss.item<double>();
          engine.backward(loss);
          engine.step();
        }
        losses[engine.progress().global_samples] = sum / 2;
      }
    }
    if (world.rank() != 0) {
      return;
    }
    const auto csv = [&](const char* name) {
      return points_of(folder.path() / "csv/run" / name);
    };
    const auto written = csv("Train_Samples_train_loss.csv");
    ASSERT_EQ(written.size(), 3);
    for (const auto& [samples, loss] : losses) {
      EXPECT_NEAR(written.at(samples), loss, 1e-3) << samples;
    }
    EXPECT_THAT(
        csv("Train_Samples_lr.csv"),
        ElementsAre(
            std::pair(8, 0.0),
            std::pair(16, 0.125),
            std::pair(24, 0.25)));
    EXPECT_THAT(
        csv("Train_Samples_loss_scale.csv"),
        ElementsAre(std::pair(8, 16), std::pair(16, 16), std::pair(24, 16)));
    for (const char* timer :
         {"forward", "backward", "backward_allreduce", "step"}) {
      EXPECT_EQ(
          csv(fmt::format("Train_Samples_elapsed_time_ms_{}.csv", timer)
                  .c_str())
              .size(),
          3);
    }

    std::vector<fs::path> files;
    for (const auto& entry :
         fs::directory_iterator(folder.path() / "board/run")) {
      files.push_back(entry.path());
    }
    ASSERT_EQ(files.size(), 1) << "one rank writes";
    std::map<std::int64_t, double> board;
    for (const std::string& event :
         monitor::events_in(monitor::bytes_of(files.front()))) {
      if (event.find("train_loss") != event.npos) {
        const auto scalar = monitor::scalar_in(event);
        EXPECT_EQ(scalar.name, "Train/Samples/train_loss");
        board[scalar.step] = scalar.value;
      }
    }
    EXPECT_EQ(board, written);
  });
}

TEST(Step, LeavesFilesToAProgramThatWritesThem) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 1}, [&](const distributed::World& world) {
    auto made = initialize(
        {.model = std::make_shared<TanhStack>(2, 8),
         .config = with_files(folder.path()).dump(),
         .keys_acted_on = {"tensorboard", "csv_monitor"},
         .world = world,
         .logger = quiet});
    EXPECT_TRUE(fs::is_empty(folder.path()));
  });
}

} // namespace
} // namespace cairn::step_test
