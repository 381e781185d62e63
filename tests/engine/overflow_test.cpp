#include "engine/nets.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/TensorOperators.h>
#include <cairn/base/error.h>
#include <cairn/engine/initialize.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>

// fp16 training whose gradients overflow, down to the smallest loss scale and
// beyond.

namespace cairn::overflow_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::OddMlp;

struct Training {
  std::shared_ptr<OddMlp> net;
  Initialized all;

  void step(double more = 0) {
    const at::Tensor tokens = at::arange(16, at::kLong).view({2, 8});
    const at::Tensor loss = testing::token_loss(all.engine(tokens), tokens) +
        net->scale.to(at::kFloat).sum() * more;
    all.engine.backward(loss);
    all.engine.step();
  }
  /// Overflows on one rank alone: the others must follow.
  void overflow() { step(all.engine.rank() == 0 ? 1e30 : 0); }

  /// The error of step().
  std::string error_of_overflow() {
    try {
      overflow();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

/// Starts a training at the smallest loss scale, after one overflow.
Training start(const distributed::World& world, const std::string& at_minimum) {
  torch::manual_seed(5);
  auto net = std::make_shared<OddMlp>();
  return {
      net,
      initialize(
          {.model = net,
           .config = R"({"train_micro_batch_size_per_gpu": 2,
               "optimizer": {"type": "Adam"}, "zero_optimization": {"stage": 1},
               "fp16": {"enabled": true, "initial_scale_power": 1,
                        "hysteresis": 1, "min_loss_scale": 1)" +
               at_minimum + "}}",
           .world = world,
           .logger = Logger(
               {.rank = world.rank(),
                .world_size = world.size(),
                .least = LogLevel::warning})})};
}

TEST(Overflow, StopsAndNamesTheParameter) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    Training run = start(world, "");
    Engine& engine = run.all.engine;
    const at::Tensor before = engine.full_parameter("head.weight");
    run.overflow();
    EXPECT_EQ(run.all.optimizer.cur_scale(), 1);
    EXPECT_EQ(engine.progress().skipped_steps, 1);
    EXPECT_TRUE(at::equal(engine.full_parameter("head.weight"), before));
    EXPECT_THAT(
        run.error_of_overflow(),
        HasSubstr("step 1, scale: gradients overflow at the smallest loss "
                  "scale (loss scale 1)"));
  });
}

/// A fixed scale cannot be lowered, so only the step is skipped.
TEST(Overflow, OfAmpIsSkipped) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    torch::manual_seed(5);
    auto net = std::make_shared<OddMlp>();
    Training run{
        net,
        initialize(
            {.model = net,
             .config = R"({"train_micro_batch_size_per_gpu": 2,
                 "optimizer": {"type": "Adam"},
                 "amp": {"enabled": true, "loss_scale": 128}})",
             .world = world,
             .logger = Logger({.least = LogLevel::error})})};
    Engine& engine = run.all.engine;
    EXPECT_TRUE(engine.settings().loss_is_scaled);
    const at::Tensor before = engine.full_parameter("head.weight");
    run.step(std::numeric_limits<double>::infinity());
    EXPECT_EQ(engine.progress().skipped_steps, 1);
    EXPECT_TRUE(at::equal(engine.full_parameter("head.weight"), before));
    run.step();
    EXPECT_EQ(engine.progress().skipped_steps, 1);
    EXPECT_EQ(engine.progress().loss_scale, 128);
    EXPECT_FALSE(at::equal(engine.full_parameter("head.weight"), before));
  });
}

TEST(Overflow, HoldsAndSkips) {
  const auto outcomes =
      testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
        Training run = start(world, R"(, "at_minimum_scale": "hold")");
        Engine& engine = run.all.engine;
        for (int i = 0; i < 6; ++i) {
          run.overflow();
        }
        EXPECT_EQ(engine.progress().skipped_steps, 6);
        EXPECT_EQ(engine.progress().global_steps, 6);
        EXPECT_EQ(run.all.optimizer.cur_scale(), 1);
        const at::Tensor before = engine.full_parameter("head.weight");
        run.step();
        EXPECT_EQ(engine.progress().skipped_steps, 6);
        EXPECT_FALSE(at::equal(engine.full_parameter("head.weight"), before));
      });
  const std::string& log = outcomes[0].log;
  EXPECT_THAT(
      log,
      HasSubstr("step 1 skipped at the smallest loss scale 1: the gradient of "
                "scale is not finite; 1 so far"));
  EXPECT_THAT(log, HasSubstr("step 4 skipped at the smallest"));
  EXPECT_THAT(log, Not(HasSubstr("step 5 skipped"))) << "too many lines";
  EXPECT_THAT(outcomes[1].log, Not(HasSubstr("skipped")));
}

TEST(Overflow, RollsBackToTheLastCheckpoint) {
  const testing::TemporaryFolder folder;
  const auto outcomes =
      testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
        Training run = start(world, R"(, "at_minimum_scale": "roll_back")");
        Engine& engine = run.all.engine;
        run.overflow();
        EXPECT_THAT(
            run.error_of_overflow(),
            HasSubstr("there is no checkpoint to roll back to"));

        run = start(world, R"(, "at_minimum_scale": "roll_back")");
        run.step();
        run.step();
        engine.save_checkpoint(folder.path(), "good");
        const at::Tensor saved = engine.full_parameter("head.weight");
        run.step();
        run.overflow(); // lowers the scale
        EXPECT_EQ(engine.progress().global_steps, 4);
        run.overflow();
        EXPECT_EQ(engine.progress().global_steps, 2);
        EXPECT_EQ(engine.progress().skipped_steps, 0);
        EXPECT_EQ(run.all.optimizer.cur_scale(), 2) << "as it was saved";
        EXPECT_TRUE(at::equal(engine.full_parameter("head.weight"), saved));

        // Other data bring the run past that step, and the next failure rolls
        // back again; a failure in the same place stops.
        for (int i = 0; i < 3; ++i) {
          run.step();
        }
        run.overflow();
        run.overflow();
        EXPECT_EQ(engine.progress().global_steps, 2);
        run.step();
        run.step();
        run.step();
        run.overflow();
        EXPECT_THAT(
            run.error_of_overflow(),
            HasSubstr("a roll back from step 6 did not help"));
      });
  EXPECT_THAT(
      outcomes[0].log,
      HasSubstr("in step 4, first that of scale: rolled back to step 2, "));
}

} // namespace
} // namespace cairn::overflow_test
