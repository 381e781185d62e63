#pragma once

#include "engine/nets.h"

#include <cairn/engine/initialize.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace cairn::testing {

/// A small training for tests of checkpoints: the world's data are the same for
/// any size, so that its losses can be compared.
struct TrainingRun {
  /// Per step; 1 to 4 ranks share them.
  static constexpr std::int64_t rows = 12;

  std::shared_ptr<OddMlp> net;
  Initialized all;
  distributed::World world;

  Engine& engine() { return all.engine; }

  /// Returns the mean loss of all ranks.
  double step() {
    const std::int64_t mine = rows / world.size();
    const at::Tensor tokens = at::remainder(
        at::arange(rows * 8, at::kLong).view({rows, 8}) * 5 +
            engine().progress().global_steps * 3,
        64);
    const at::Tensor own = tokens.narrow(0, world.rank() * mine, mine);
    const at::Tensor loss = token_loss(engine()(own), own);
    engine().backward(loss);
    engine().step();
    return world.group()
               .all_reduce(at::full({1}, loss.item<double>(), at::kDouble))
               .wait()
               .item<double>() /
        world.size();
  }

  /// The losses of the next steps.
  std::vector<double> curve(int steps) {
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) {
      losses.push_back(step());
    }
    return losses;
  }
};

/// Starts a run; `more` is merged into the configuration.
inline TrainingRun start_run(
    const distributed::World& world,
    int stage,
    const nlohmann::json& more = nlohmann::json::object(),
    LogLevel least = LogLevel::error) {
  torch::manual_seed(3);
  nlohmann::json config{
      {"train_batch_size", TrainingRun::rows},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 0.01}}}}},
      {"scheduler",
       {{"type", "WarmupLR"},
        {"params", {{"warmup_max_lr", 0.02}, {"warmup_num_steps", 6}}}}},
      {"zero_optimization",
       {{"stage", stage},
        {"reduce_bucket_size", 300},
        {"stage3_param_persistence_threshold", 20}}}};
  config.merge_patch(more);
  auto net = std::make_shared<OddMlp>();
  return {
      net,
      initialize(
          {.model = net,
           .config = config.dump(),
           .world = world,
           .logger = Logger(
               {.rank = world.rank(),
                .world_size = world.size(),
                .least = least})}),
      world};
}

} // namespace cairn::testing
