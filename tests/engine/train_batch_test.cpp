#include "engine/nets.h"
#include "support/error_text.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/base/error.h>
#include <cairn/engine/initialize.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <vector>

// A whole update in one call, of a model in one piece.

namespace cairn::train_batch_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::TanhStack;

constexpr std::int64_t micro_batches = 3;

Engine engine_of(const distributed::World& world, int stage) {
  const json settings{
      {"train_micro_batch_size_per_gpu", 2},
      {"gradient_accumulation_steps", micro_batches},
      {"gradient_clipping", 0.5},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 0.1}}}}},
      {"zero_optimization", {{"stage", stage}}}};
  torch::manual_seed(1);
  return initialize({.model = std::make_shared<TanhStack>(3, 8),
                     .config = settings.dump(),
                     .world = world,
                     .logger = Logger({.least = LogLevel::error})})
      .engine;
}

at::Tensor input(const distributed::World& world, std::int64_t number) {
  return at::full({2, 8}, 0.1 * static_cast<double>(1 + world.rank() + number));
}

at::Tensor loss_of(const at::Tensor& output) {
  return output.square().mean();
}

TEST(TrainBatch, IsForwardBackwardAndStepOfEveryMicroBatch) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    for (const int stage : {0, 2, 3}) {
      SCOPED_TRACE(fmt::format("stage {}", stage));
      Engine verbs = engine_of(world, stage);
      Engine whole = engine_of(world, stage);
      std::int64_t number = 0;
      for (int update = 0; update < 2; ++update) {
        std::vector<at::Tensor> losses;
        for (std::int64_t i = 0; i < micro_batches; ++i) {
          losses.push_back(
              loss_of(verbs(input(world, update * micro_batches + i))));
          verbs.backward(losses.back());
          verbs.step();
        }
        const at::Tensor mean = whole.train_batch([&] {
          const at::Tensor loss = loss_of(whole(input(world, number++)));
          return BatchLoss(loss, {{"twice", 2 * loss}});
        });
        EXPECT_TRUE(at::allclose(mean, at::stack(losses).mean()));
        ASSERT_EQ(whole.loss_parts().size(), 1);
        EXPECT_EQ(whole.loss_parts()[0].first, "twice");
        EXPECT_TRUE(at::allclose(whole.loss_parts()[0].second, 2 * mean));
      }
      EXPECT_EQ(whole.progress().global_steps, 2);
      EXPECT_TRUE(at::equal(
          verbs.full_parameter("layers.0.weight"),
          whole.full_parameter("layers.0.weight")));
    }
  });
}

TEST(TrainBatch, EvaluatesWithoutGradientsAndGoesOnTraining) {
  testing::run_ranks({.ranks = 1}, [](const distributed::World& world) {
    Engine engine = engine_of(world, 0);
    const at::Tensor before = engine.full_parameter("layers.0.weight").clone();
    std::int64_t passes = 0;
    const at::Tensor loss = engine.eval_batch(
        [&] {
          ++passes;
          EXPECT_FALSE(engine.module().is_training());
          const at::Tensor one = loss_of(engine(input(world, 0)));
          EXPECT_FALSE(one.requires_grad());
          return one;
        },
        5);
    EXPECT_EQ(passes, 5);
    EXPECT_TRUE(engine.module().is_training());
    EXPECT_TRUE(at::equal(before, engine.full_parameter("layers.0.weight")));
    EXPECT_TRUE(at::allclose(loss, loss_of(engine(input(world, 0)))));
  });
}

TEST(TrainBatch, SaysWhatIsMissing) {
  testing::run_ranks({.ranks = 1}, [](const distributed::World& world) {
    Engine engine = engine_of(world, 0);
    EXPECT_THAT(
        error_text<UsageError>([&] {
          engine.train_batch(
              [] { return std::optional<pipeline::MicroBatch>(); });
        }),
        HasSubstr("returns the loss"));
    engine.backward(loss_of(engine(input(world, 0))));
    engine.step();
    EXPECT_THAT(
        error_text<UsageError>([&] {
          engine.train_batch([&] { return loss_of(engine(input(world, 1))); });
        }),
        HasSubstr("1 of 3 micro batches are done"));
    engine.eval();
    EXPECT_THAT(
        error_text<UsageError>([&] {
          engine.train_batch([&] { return loss_of(engine(input(world, 1))); });
        }),
        HasSubstr("while evaluating"));
  });
}

} // namespace
} // namespace cairn::train_batch_test
