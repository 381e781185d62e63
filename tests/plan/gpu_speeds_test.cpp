#include "plan/attention_speeds.h"
#include "plan/block_passes.h"
#include "plan/product_speeds.h"
#include "plan/speeds_json.h"

#include <cairn/plan/cluster.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>

// The program that measures a GPU for the planner, on a CPU and with a clock
// that says what the test wants: sizes, operations and units are counted as the
// planner counts them.

namespace cairn::plan {
namespace {

using ::testing::DoubleNear;

constexpr double two_seconds = 2;

/// Computes what is to be measured, and says that it took two seconds.
double slow(const std::function<void()>& call) {
  call();
  return two_seconds;
}

Operands small_operands() {
  return {at::kCPU, 1 << 16};
}

TEST(PlanGpuSpeeds, AreReadAsTheyWereWritten) {
  Operands operands = small_operands();
  MeasuredSpeeds measured{.traffic = {{2e6, 3e12}}, .passes = 0.5};
  for (const Bits bits : {Bits::sixteen, Bits::eight}) {
    (bits == Bits::sixteen ? measured.products_16bit : measured.products_8bit) =
        product_speeds(slow, operands, bits, {16, 64}, {16, 32});
  }
  const ProductSpeeds& products = *measured.products_16bit;
  ASSERT_EQ(products.forward.speeds.size(), 8U);
  EXPECT_EQ(products.forward.speeds.front(), 16 * 16 * 16);
  EXPECT_EQ(products.weight_gradient.speeds.back(), 64 * 32 * 32);
  EXPECT_EQ(
      measured.products_8bit->input_gradient.speeds,
      products.forward.speeds);
  // A GPU is faster by many orders.
  for (auto* speeds : {&measured.products_16bit, &measured.products_8bit}) {
    for (SpeedGrid* grid :
         {&(*speeds)->forward,
          &(*speeds)->input_gradient,
          &(*speeds)->weight_gradient}) {
      for (double& each : grid->speeds) {
        each *= 1e9;
      }
    }
  }
  const SpeedGrid long_texts{.axes = {{16384}, {64}}, .speeds = {1e12}};
  measured.attention_16bit = {long_texts, long_texts, long_texts, long_texts};
  nlohmann::json cluster = nlohmann::json::parse(R"(
    {"name": "x", "about": "y", "gpus_per_node": 1, "nodes": 1,
     "gpu": {"name": "z", "memory_gb": 1, "tflops": 1, "bandwidth_gb_per_s": 1,
             "matmul_share": 0.5},
     "host": {"memory_gb": 1, "copy_gb_per_s": 1, "adam_billion_per_s": 1},
     "levels": [{"name": "l", "ranks": 1, "gb_per_s": 1, "microseconds": 1}]})");
  cluster["gpu"].update(nlohmann::json::parse(json_of(measured, "2026-11-20")));
  const MeasuredSpeeds read =
      cluster_from_json(cluster.dump(), "x.json").gpu.measured;
  ASSERT_TRUE(read.products_16bit);
  ASSERT_TRUE(read.products_8bit);
  EXPECT_EQ(read.products_16bit->forward.axes, products.forward.axes);
  for (std::size_t i = 0; i < products.forward.speeds.size(); ++i) {
    const double written = products.weight_gradient.speeds[i];
    EXPECT_NEAR(
        read.products_16bit->weight_gradient.speeds[i],
        written,
        1e-3 * written);
  }
  ASSERT_TRUE(read.attention_16bit);
  EXPECT_EQ(read.attention_16bit->backward.axes, long_texts.axes);
  EXPECT_DOUBLE_EQ(read.traffic.front().size, 2e6);
  EXPECT_DOUBLE_EQ(read.traffic.front().speed, 3e12);
  EXPECT_EQ(read.passes, 0.5);
}

TEST(PlanGpuSpeeds, CountAttentionAsThePlannerDoes) {
  Operands operands = small_operands();
  double next = 0;
  // Both passes take 7 times as long as the first alone.
  const Timer timer = [&](const std::function<void()>& call) {
    call();
    next = next == 1 ? 7 : 1;
    return next;
  };
  const AttentionSpeeds speeds =
      attention_speeds(timer, operands, 32, 16, {8, 32}, {8, 16});
  ASSERT_EQ(speeds.forward.speeds.size(), 4U);
  EXPECT_EQ(speeds.forward.speeds.front(), 4 * 32 * 8 * 16);
  EXPECT_EQ(speeds.causal_forward.speeds.front(), 2 * 32 * 8 * 16);
  EXPECT_EQ(speeds.causal_forward.speeds.back(), 2 * 32 * 32 * 16);
  EXPECT_DOUBLE_EQ(
      speeds.backward.speeds.back(),
      2.5 * speeds.forward.speeds.back() / 6);
}

TEST(PlanGpuSpeeds, RestOfABlockIsPassesOverMemory) {
  const BlockSizes sizes{2, 8, 32, 2};
  Operands operands = small_operands();
  const BlockSeconds took = block_seconds(slow, operands, sizes);
  EXPECT_EQ(took.forward, two_seconds);
  EXPECT_EQ(took.backward, 0) << "both passes took two seconds";
  EXPECT_EQ(took.products, 4 * 3 * two_seconds);
  EXPECT_EQ(took.attention, two_seconds);
  // 1 KB a tensor of the residual stream, and 24 of them move in the forward
  // pass at least.
  const std::vector<SpeedAt> traffic{{1, 1024}};
  EXPECT_DOUBLE_EQ(
      passes_of(
          sizes,
          {.forward = 60, .backward = 120, .products = 72, .attention = 36},
          traffic),
      1);
  EXPECT_THAT(
      traffic_speeds(slow, operands, {16, 64})[1].speed,
      DoubleNear(3 * 2 * 64 / two_seconds, 1e-9));
}

} // namespace
} // namespace cairn::plan
