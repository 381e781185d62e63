#include "engine/training_run.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

// Passes that are recorded as a CUDA graph and repeated: the same losses as
// passes that the host queues one by one.

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
Losses trained(const distributed::World& world, const json& more, bool repeat) {
  TrainingRun run = start_run(world, 1, more);
  Engine& engine = run.engine();
  Losses losses;
  std::int64_t micro_batch = 0;
  const auto next = [&] {
    const std::int64_t rows = engine.progress().global_steps < 7 ? 6 : 4;
    return PassInputs{{tokens_of(micro_batch++, rows, engine.device())}};
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
    losses.values.push_back(engine.train_batch(passes).item<double>());
    losses.values.push_back(engine.loss_parts()[0].second.item<double>());
    losses.values.push_back(engine.gradient_norm().value());
  }
  return losses;
}

TEST(RepeatedPasses, LearnWhatOthersLearn) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [](const distributed::World& world) {
        ASSERT_EQ(world.device_name(), "cuda:0");
        for (const int accumulation : {1, 3}) {
          const json more{
              {"train_batch_size", 6 * accumulation},
              {"gradient_accumulation_steps", accumulation},
              {"gradient_clipping", 1.0},
              {"bf16", {{"enabled", accumulation == 1}}}};
          const Losses wanted = trained(world, more, false);
          const Losses got = trained(world, more, true);
          EXPECT_EQ(wanted.forwards, 10 * accumulation);
          // Two updates to warm up, then each kind of pass once: the first of
          // an update, those between, and the last; for both shapes.
          EXPECT_EQ(got.forwards, accumulation == 1 ? 2 + 2 : 6 + 6);
          for (std::size_t i = 0; i < wanted.values.size(); ++i) {
            EXPECT_NEAR(got.values[i], wanted.values[i], 1e-5) << i;
          }
        }
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
