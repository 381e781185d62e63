#include "pretrain/parity_reference.h"
#include "pretrain/parity_training.h"
#include "support/run_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

// Rows of the parity table whose ranks share one GPU: they follow the curve of
// one process on the CPU. They use Gloo, since NCCL refuses two ranks on a GPU.

namespace cairn::pretrain::parity_gpu_test {
namespace {

using parity::Point;
using parity::Row;
using parity::Training;
using parity::wanted;

/// The allowed difference between losses.
double nearness(const Row& row) {
  return row.zero.empty() ? 1e-4 : 0.05; // small integers round
}

class ParityGpu : public ::testing::TestWithParam<Row> {};

TEST_P(ParityGpu, FollowsTheCurveOfTheCpu) {
  const Row& row = GetParam();
  const parity::Curve& curve = wanted(row.model);
  testing::run_ranks(
      {.ranks = row.ranks(),
       .backend = distributed::BackendChoice::gloo_on_gpu,
       .limit = std::chrono::seconds(120)},
      [&](const distributed::World& world) {
        ASSERT_EQ(world.device_name(), "cuda:0");
        Training training(row, world);
        for (const Point& there : curve) {
          const Point got = training.step();
          ASSERT_EQ(got.losses.size(), there.losses.size());
          for (std::size_t i = 0; i < got.losses.size(); ++i) {
            EXPECT_NEAR(got.losses[i], there.losses[i], nearness(row))
                << "loss " << i;
          }
          if (row.zero.empty()) {
            EXPECT_NEAR(got.norm, there.norm, 1e-3);
            EXPECT_NEAR(got.weights, there.weights, 1e-2);
          }
        }
      });
}

std::vector<Row> rows() {
  const std::string one = "gpt_experts";
  const std::string two = "gpt_experts_top2"; // residual, none dropped
  return {
      {.name = "experts_zero1",
       .model = one,
       .data = 2,
       .expert = 2,
       .stage = 1},
      {.name = "experts_zero3",
       .model = one,
       .data = 2,
       .expert = 2,
       .stage = 3},
      {.name = "experts_top2_zero2",
       .model = two,
       .data = 2,
       .expert = 2,
       .stage = 2},
      {.name = "experts_top2_tensor2_sequence",
       .model = two,
       .tensor = 2,
       .stage = 1,
       .sequence_parallel = true},
      {.name = "experts_small_integers_zero3",
       .model = one,
       .data = 2,
       .stage = 3,
       .zero =
           {{"zero_quantized_weights", true},
            {"zero_quantized_gradients", true}}},
      {.name = "dropout_zero3",
       .model = "gpt_dropout_of_hidden",
       .data = 2,
       .stage = 3},
      {.name = "dropout_tensor2_sequence_recompute",
       .model = "gpt_dropout_of_hidden",
       .tensor = 2,
       .sequence_parallel = true,
       .recompute = true},
      {.name = "dropout_pipeline2",
       .model = "gpt_dropout_of_hidden",
       .pipeline = 2},
      {.name = "ring_zero1", .context = 2, .stage = 1},
      {.name = "ring_rotary_zero3",
       .model = "gpt_rotary",
       .context = 2,
       .stage = 3},
      {.name = "ulysses_zero3",
       .context = 2,
       .context_kind = "a2a",
       .stage = 3}};
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    ParityGpu,
    ::testing::ValuesIn(rows()),
    [](const auto& info) { return info.param.name; });

} // namespace
} // namespace cairn::pretrain::parity_gpu_test
