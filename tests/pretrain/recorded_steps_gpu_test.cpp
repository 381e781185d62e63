#include "pretrain/parity_training.h"
#include "pretrain/run/repeatable_pass.h"
#include "support/run_ranks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

// Trainings of whole models whose passes and updates are recorded as CUDA
// graphs: the losses of those that are not, bit for bit.

namespace cairn::pretrain::recorded_steps_test {
namespace {

using parity::Row;
using parity::Training;

constexpr int steps = 6;

/// Losses and norms of a training; the micro batches are the same.
std::vector<double> curve(
    const Row& row,
    const distributed::World& world,
    bool record) {
  at::manual_seed(5);
  Training training(row, world);
  Engine& engine = *training.engine;
  engine.count_zeros_in_gradient(false);
  const distributed::ProcessGroup& sharing =
      training.mesh.along(distributed::Axis::data);
  int micro_batch = 0;
  std::int64_t forwards = 0;
  const auto next = [&] {
    const int number = micro_batch++ * sharing.size() + sharing.rank();
    const data::TensorBatch batch =
        parity::batch_of(row.model, 1, number).to(engine.device());
    return for_training(
        models::pretraining_input(training.description, batch, {}),
        training.config.deepspeed.random_ltd,
        /*step=*/1,
        2 * number); // every pass drops others
  };
  const auto whole = [&] {
    auto output = engine.forward<models::ModelOutput>(next());
    return BatchLoss(std::move(output.loss), std::move(output.losses));
  };
  BatchPasses passes(whole);
  if (record) {
    RepeatablePass pass = repeatable_pass(engine, next, /*warm_up=*/2);
    pass.forward = [&, inner = pass.forward](const PassInputs& inputs) {
      ++forwards;
      return inner(inputs);
    };
    passes.set_repeatable(pass);
  }
  std::vector<double> found;
  for (int i = 0; i < steps; ++i) {
    found.push_back(engine.train_batch(passes).item<double>());
    found.push_back(engine.gradient_norm().value());
  }
  if (record) { // some passes were repeated, not called
    EXPECT_GT(forwards, 0);
    EXPECT_LT(forwards, steps * parity::micro_batches / row.data);
  }
  return found;
}

void expect_same_curve(const Row& row, const distributed::World& world) {
  SCOPED_TRACE(row.name);
  const std::vector<double> wanted = curve(row, world, false);
  EXPECT_EQ(curve(row, world, true), wanted);
  EXPECT_LT(wanted[2 * steps - 2], wanted[0]); // it learns
}

TEST(RecordedSteps, OfModelsWithAndWithoutExperts) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [](const distributed::World& world) {
        expect_same_curve({.name = "gpt", .flags = {"--bf16"}}, world);
        expect_same_curve( // of hidden states and of attention
            {.name = "dropout", .model = "gpt_dropout", .flags = {"--bf16"}},
            world);
        expect_same_curve(
            {.name = "experts",
             .model = "gpt_experts_top2", // no token is dropped
             .stage = 1,
             .flags = {"--bf16"}},
            world);
      });
}

TEST(RecordedSteps, OfTwoRanksOverNccl) {
  testing::run_ranks(
      testing::ranks_on_one_gpu(2),
      [](const distributed::World& world) {
        expect_same_curve(
            {.name = "data2", .data = 2, .stage = 2, .flags = {"--bf16"}},
            world);
        expect_same_curve(
            {.name = "tensor2", .tensor = 2, .stage = 1, .flags = {"--bf16"}},
            world);
        expect_same_curve(
            {.name = "experts",
             .model = "gpt_experts_top2",
             .data = 2,
             .stage = 1,
             .flags = {"--bf16"}},
            world);
      });
}

} // namespace
} // namespace cairn::pretrain::recorded_steps_test
