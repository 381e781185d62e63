// Predicted against published: the goals that the model of time and memory is
// held to. docs/planning.md shows every row.

#include "plan/published.h"
#include "plan/fitting.h"

#include "support/command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

namespace cairn::plan {
namespace {

const std::vector<PublishedRow>& rows() {
  static const std::vector<PublishedRow> all =
      read_published(CAIRN_SOURCE_DIR "/bench/plan/published.json");
  return all;
}

const PublishedRow& row_named(const std::string& name) {
  for (const PublishedRow& row : rows()) {
    if (row.name == name) {
      return row;
    }
  }
  throw std::runtime_error("no row " + name);
}

/// Mean error of throughput over the published tables' rows.
double mean_error(const std::function<bool(const PublishedRow&)>& counts) {
  double sum = 0;
  double number = 0;
  for (const PublishedRow& row : rows()) {
    if (row.iteration_seconds && row.not_judged.empty() &&
        !row.table.starts_with("Cairn") && counts(row)) {
      sum += std::abs(*predict(row).speed_error);
      ++number;
    }
  }
  EXPECT_GT(number, 20);
  return sum / number;
}

TEST(PlanPublished, ThroughputIsWithinTenPercentOnAverage) {
  EXPECT_LE(mean_error([](const PublishedRow&) { return true; }), 0.10);
}

TEST(PlanPublished, RowsThatNothingWasFittedOnAreWithinFifteen) {
  EXPECT_LE(mean_error([](const PublishedRow& row) { return !row.fit; }), 0.15);
}

TEST(PlanPublished, NoRowIsOffByMoreThanThirtyPercent) {
  for (const PublishedRow& row : rows()) {
    if (row.iteration_seconds && row.not_judged.empty()) {
      EXPECT_LE(std::abs(*predict(row).speed_error), 0.30)
          << row.table << " " << row.name;
    }
  }
}

/// The constants in the tree are those that the fit ends with: none of them
/// fits better when it is moved a little.
TEST(PlanPublished, NoConstantFitsBetterElsewhere) {
  const Setting tree = in_the_tree(rows());
  const double least = badness(rows(), tree);
  for (const Knob& knob : knobs_of(rows())) {
    for (const double factor : {1.05, 1 / 1.05}) {
      Setting other = tree;
      double& value = knob.value(other);
      value = std::clamp(value * factor, knob.least, knob.most);
      EXPECT_GT(badness(rows(), other), 0.999 * least)
          << knob.name << " times " << factor;
    }
  }
}

/// The page shows what the program says: `plan_calibration --markdown`.
TEST(PlanPublished, ThePageHasEveryRow) {
  const std::string page =
      cairn::testing::read_text(CAIRN_SOURCE_DIR "/docs/planning.md");
  for (const PublishedRow& row : rows()) {
    EXPECT_THAT(page, ::testing::HasSubstr(markdown_of(row)));
  }
  EXPECT_THAT(
      page,
      ::testing::HasSubstr(fmt::format(
          "all {:.1f}%, held out {:.1f}%, fitted {:.1f}%",
          100 * mean_error([](const PublishedRow&) { return true; }),
          100 * mean_error([](const PublishedRow& row) { return !row.fit; }),
          100 * mean_error([](const PublishedRow& row) { return row.fit; }))));
}

/// The case of 4.1 in which nodes are 40 Gb/s apart. The document says that
/// Megatron-LM has a batch of 32 there, and that DeepSpeed is nearly four times
/// as fast.
TEST(PlanPublished, OverSlowLinksDegreesAreThoseOfTheTableAndTheGainIsLess) {
  const PublishedRow& megatron = row_named("Megatron 1.5B over 40 Gb/s");
  const PublishedRow& deepspeed = row_named("DeepSpeed 1.5B over 40 Gb/s");
  EXPECT_EQ(smallest_tensor_that_fits(megatron), 4);
  EXPECT_EQ(smallest_tensor_that_fits(deepspeed), 1);
  EXPECT_EQ(largest_batch_that_fits(deepspeed), 128);
  EXPECT_EQ(largest_batch_that_fits(megatron), 64) << "not 32";
  const double gain = predict(deepspeed).estimate.tokens_per_second_per_gpu /
      predict(megatron).estimate.tokens_per_second_per_gpu;
  EXPECT_GT(gain, 2);
  EXPECT_LT(gain, 3) << "not nearly 4";
}

TEST(PlanPublished, Gpt3TakesThirtyTwoSeconds) {
  const PublishedRow& row = row_named("GPT-3 175B");
  ASSERT_FALSE(row.fit);
  const Estimate each = predict(row).estimate;
  EXPECT_NEAR(each.iteration_seconds / 32.0, 1, 0.10);
  EXPECT_NEAR(each.hardware_tflops_per_gpu / 138.0, 1, 0.10);
  EXPECT_TRUE(each.fits);
}

TEST(PlanPublished, MemoryIsWithinEightPercent) {
  int seen = 0;
  for (const PublishedRow& row : rows()) {
    if (row.memory_bytes && row.memory_judged) {
      EXPECT_LE(std::abs(*predict(row).memory_error), 0.08)
          << row.table << " " << row.name;
      ++seen;
    }
  }
  EXPECT_GE(seen, 8);
}

TEST(PlanPublished, WhatFitsIsWhatTheTableSays) {
  int seen = 0;
  for (const PublishedRow& row : rows()) {
    if (row.largest && row.impossible.empty()) {
      SCOPED_TRACE(row.name);
      EXPECT_EQ(smallest_tensor_that_fits(row), row.layout.tensor);
      EXPECT_EQ(largest_batch_that_fits(row), row.layout.global_batch);
      EXPECT_LT(least_bytes(row), row.cluster.gpu.memory_bytes);
      ++seen;
    }
  }
  EXPECT_EQ(seen, 7);
}

/// The eighth row of document 000 says four ranks. Adam's 16 bytes of each
/// parameter and the inputs of the blocks alone are more than such a GPU has.
/// Its time, too, is that of eight ranks.
TEST(PlanPublished, TheRowThatCannotBeIsOneOfTwiceAsManyRanks) {
  int seen = 0;
  for (const PublishedRow& row : rows()) {
    if (!row.impossible.empty()) {
      SCOPED_TRACE(row.name);
      EXPECT_GT(least_bytes(row), row.cluster.gpu.memory_bytes);
      EXPECT_EQ(smallest_tensor_that_fits(row), 2 * row.layout.tensor);
      PublishedRow other = row;
      other.layout.tensor *= 2;
      other.layout.micro_batch *= 2;
      EXPECT_LE(
          std::abs(*predict(other).speed_error),
          std::abs(*predict(row).speed_error) / 4);
      ++seen;
    }
  }
  EXPECT_EQ(seen, 1);
}

TEST(PlanPublished, OneH200IsWithinSixPercentAndItsMemoryWithinFive) {
  int seen = 0;
  for (const PublishedRow& row : rows()) {
    if (row.table == "Cairn") {
      const Prediction each = predict(row);
      EXPECT_LE(std::abs(*each.speed_error), 0.06) << row.name;
      EXPECT_LE(std::abs(*each.memory_error), 0.05) << row.name;
      ++seen;
    }
  }
  EXPECT_EQ(seen, 11);
}

/// Blocks that are computed again and states that visit the GPU.
TEST(PlanPublished, WhatPartsOfARunCostOnOneH200IsWithinFivePercent) {
  int seen = 0;
  for (const PublishedRow& row : rows()) {
    if (row.table == "Cairn, parts" && row.not_judged.empty()) {
      EXPECT_LE(std::abs(*predict(row).speed_error), 0.05) << row.name;
      ++seen;
    }
  }
  EXPECT_EQ(seen, 5);
}

/// Models that fill one H200 and its host. Memory is what nvidia-smi and the
/// system show.
TEST(PlanPublished, MemoryOfModelsThatFillAnH200IsWithinFivePercent) {
  int seen = 0;
  for (const PublishedRow& row : rows()) {
    if (row.table != "Cairn, large") {
      continue;
    }
    SCOPED_TRACE(row.name);
    const Prediction each = predict(row);
    EXPECT_TRUE(each.estimate.fits) << each.estimate.lacks;
    EXPECT_LE(std::abs(*each.speed_error), 0.20);
    if (row.memory_bytes) {
      EXPECT_LE(std::abs(*each.memory_error), 0.05);
      ++seen;
    }
    if (row.host_bytes) {
      // What the system and the program have without states: measured with
      // 14.4 billion parameters on the GPU. It differs from call to call.
      constexpr double without = 4.04e9;
      EXPECT_NEAR(
          each.estimate.host_bytes + without,
          *row.host_bytes,
          std::max(0.05 * *row.host_bytes, 2e9));
    }
  }
  EXPECT_EQ(seen, 8);
}

/// The small nets of bench/train. The source rounds memory to 0.1 GB.
TEST(PlanPublished, SmallNetsOnACpuAreWithinFifteenPercent) {
  int seen = 0;
  for (const PublishedRow& row : rows()) {
    if (row.table == "Cairn, CPU") {
      const Prediction each = predict(row);
      EXPECT_LE(std::abs(*each.speed_error), 0.15) << row.name;
      EXPECT_LE(
          std::abs(each.estimate.memory.total() - *row.memory_bytes),
          0.05e9 + 0.1 * *row.memory_bytes)
          << row.name;
      ++seen;
    }
  }
  EXPECT_EQ(seen, 3);
}

} // namespace
} // namespace cairn::plan
