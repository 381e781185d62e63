#include "engine/training_run.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

// Passes and updates that are recorded as CUDA graphs and repeated: the same
// losses as those that the host queues one by one, bit for bit.

namespace cairn::repeated_passes_test {
namespace {

using nlohmann::json;
using testing::start_run;
using testing::TrainingRun;

/// Rows of tokens, other ones for every micro batch.
at::Tensor tokens_of(
    std::int64_t number,
    std::int64_t rows,
    at::Device device) {
  return at::remainder(
             at::arange(rows * 8, at::kLong).view({rows, 8}) * 5 + number * 3,
             64)
      .to(device);
}

struct Losses {
  std::vector<double> values;
  std::int64_t forwards = 0; ///< calls of the forward pass
};

/// Trains for ten updates; the rows of a micro batch change after seven.
Losses trained(
    const distributed::World& world,
    int stage,
    const json& more,
    bool repeat) {
  TrainingRun run = start_run(world, stage, more);
  Engine& engine = run.engine();
  Losses losses;
  std::int64_t micro_batch = 0;
  const auto next = [&] {
    const std::int64_t rows = engine.progress().global_steps < 7 ? 6 : 4;
    const std::int64_t number = micro_batch++ * world.size() + world.rank();
    return PassInputs{{tokens_of(number, rows, engine.device())}};
  };
  const auto forward = [&](const PassInputs& inputs) {
    ++losses.forwards;
    const at::Tensor& tokens = inputs.tensors[0];
    const at::Tensor loss = testing::token_loss(engine(tokens), tokens);
    return BatchLoss(loss, {{"twice", loss * 2}});
  };
  BatchPasses passes([&] { return forward(next()); });
  if (repeat) {
    passes.set_repeatable({next, forward, /*warm_up=*/2});
  }
  for (int i = 0; i < 10; ++i) {
    // Zeros are counted by the host: this update is not repeated.
    engine.count_zeros_in_gradient(i == 5);
    losses.values.push_back(engine.train_batch(passes).item<double>());
    losses.values.push_back(engine.loss_parts()[0].second.item<double>());
    losses.values.push_back(engine.gradient_norm().value());
  }
  return losses;
}

/// Compares trainings with and without graphs.
void expect_same_losses(
    const distributed::World& world,
    int stage,
    int accumulation,
    const json& more = json::object()) {
  SCOPED_TRACE(
      ::testing::Message() << "stage " << stage << ", " << accumulation
                           << " micro batches, " << more.dump());
  json config{
      {"train_batch_size", 6 * accumulation * world.size()},
      {"gradient_accumulation_steps", accumulation},
      {"gradient_clipping", 1.0},
      {"bf16", {{"enabled", accumulation == 1}}}};
  config.merge_patch(more);
  const Losses wanted = trained(world, stage, config, false);
  const Losses got = trained(world, stage, config, true);
  EXPECT_EQ(wanted.forwards, 10 * accumulation);
  // Two updates to warm up, then each kind of pass once: the first of an
  // update, those between, and the last; for both shapes.
  EXPECT_EQ(got.forwards, accumulation == 1 ? 2 + 2 : 6 + 6);
  EXPECT_EQ(got.values, wanted.values);
}

TEST(RepeatedPasses, LearnWhatOthersLearn) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [](const distributed::World& world) {
        ASSERT_EQ(world.device_name(), "cuda:0");
        for (const int accumulation : {1, 3}) {
          for (const int stage : {0, 2}) {
            expect_same_losses(world, stage, accumulation);
          }
        }
        // Narrow states, whose rounding has another key in every update; an
        // update without clipping; one that is not one launch.
        expect_same_losses(
            world,
            1,
            1,
            {{"data_types",
              {{"precision_aware_optimizer", true},
               {"exp_avg_dtype", "bf16"},
               {"exp_avg_sq_dtype", "bf16"}}}});
        expect_same_losses(world, 1, 1, {{"gradient_clipping", 0.0}});
        expect_same_losses(world, 0, 1, {{"optimizer", {{"type", "Lamb"}}}});
      });
}

TEST(RepeatedPasses, LearnWhatOthersLearnOverNccl) {
  testing::run_ranks(
      testing::ranks_on_one_gpu(2),
      [](const distributed::World& world) {
        ASSERT_EQ(world.device_name(), "cuda:0");
        for (const int stage : {0, 1, 2}) {
          for (const int accumulation : {1, 3}) {
            expect_same_losses(world, stage, accumulation);
          }
        }
      });
}

/// A rank does not repeat its graph, and the others wait for it on the GPU.
TEST(RepeatedPasses, ThatHangAreSeenByTheWatchdog) {
  auto options = testing::ranks_on_one_gpu(2);
  options.collective_timeout = std::chrono::seconds(8);
  testing::run_ranks(options, [](const distributed::World& world) {
    TrainingRun run = start_run(
        world,
        1,
        {{"train_batch_size", 12}, {"gradient_accumulation_steps", 1}});
    Engine& engine = run.engine();
    std::int64_t number = 0;
    const auto next = [&] {
      return PassInputs{{tokens_of(number++, 6, engine.device())}};
    };
    const auto forward = [&](const PassInputs& inputs) {
      return BatchLoss(
          testing::token_loss(engine(inputs.tensors[0]), inputs.tensors[0]));
    };
    BatchPasses passes([&] { return forward(next()); });
    passes.set_repeatable({next, forward, /*warm_up=*/1});
    for (int i = 0; i < 3; ++i) {
      engine.train_batch(passes);
    }
    engine.gradient_norm(); // waits for the GPU
    if (world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(14));
      return;
    }
    std::string error;
    try {
      for (int i = 0; i < 3; ++i) {
        engine.train_batch(passes);
        engine.gradient_norm();
      }
    } catch (const CommError& failure) {
      error = failure.what();
    }
    EXPECT_THAT(error, ::testing::HasSubstr("rank 1"));
    EXPECT_THAT(error, ::testing::HasSubstr("repeat"));
  });
}

/// Evaluation, and passes of the usual kind, may come between.
TEST(RepeatedPasses, LeaveOtherPassesAlone) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [](const distributed::World& world) {
        TrainingRun plain = start_run(world, 2, {{"train_batch_size", 6}});
        TrainingRun run = start_run(world, 2, {{"train_batch_size", 6}});
        const auto train = [&](TrainingRun& each, bool repeat) {
          Engine& engine = each.engine();
          const auto next = [&] {
            return PassInputs{{tokens_of(
                engine.progress().global_steps,
                6,
                engine.device())}};
          };
          const auto forward = [&](const PassInputs& inputs) {
            return BatchLoss(testing::token_loss(
                engine(inputs.tensors[0]),
                inputs.tensors[0]));
          };
          BatchPasses passes([&] { return forward(next()); });
          if (repeat) {
            passes.set_repeatable({next, forward, /*warm_up=*/1});
          }
          return engine.train_batch(passes).item<double>();
        };
        for (const bool repeat : {true, true, true, false, true, false, true}) {
          const double wanted = train(plain, false);
          EXPECT_NEAR(train(run, repeat), wanted, 1e-5);
          run.engine().eval();
          run.engine()(tokens_of(1, 3, run.engine().device()));
          run.engine().train();
        }
      });
}

} // namespace
} // namespace cairn::repeated_passes_test
