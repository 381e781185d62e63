#include "pretrain/parity_reference.h"
#include "pretrain/parity_resume.h"
#include "pretrain/parity_rows.h"
#include "pretrain/parity_training.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

// The parity table: a small model follows the loss curves of one process with
// any layout over ranks.

namespace cairn::pretrain::parity_test {
namespace {

using parity::chance_zeros;
using parity::Point;
using parity::Row;
using parity::rows;
using parity::steps;
using parity::Training;
using parity::wanted;
using testing::run_ranks;
using testing::TemporaryFolder;

/// A bias of keys does not change the attention, so its gradient is nothing but
/// rounding: with ranks that share a sequence it is often exactly 0.
int chance_zeros_of(const Row& row) {
  return row.context > 1 ? 24 : chance_zeros;
}

/// Norms of queries and keys make the curve steep: rounding grows from step to
/// step, more than without them.
double norm_tolerance_of(const Row& row) {
  return row.model == "gpt_qwen" ? 1e-3 : 2e-4;
}

void expect_near(const Point& got, const Row& row, int step) {
  const Point& there = wanted(row.model)[static_cast<std::size_t>(step)];
  ASSERT_EQ(got.losses.size(), there.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], there.losses[i], 2e-5)
        << "step " << step << ", loss " << i;
  }
  EXPECT_NEAR(got.norm, there.norm, norm_tolerance_of(row)) << "step " << step;
  EXPECT_NEAR(got.zeros, there.zeros, chance_zeros_of(row)) << "step " << step;
  EXPECT_NEAR(got.weights, there.weights, 2e-3) << "step " << step;
  const auto expect_close = [&](double ElementSums::*sum) {
    const double wanted_sum = there.variance.*sum;
    EXPECT_NEAR(got.variance.*sum, wanted_sum, 1e-3 * wanted_sum)
        << "step " << step;
  };
  expect_close(&ElementSums::squares);
  expect_close(&ElementSums::absolutes);
  expect_close(&ElementSums::roots);
  expect_close(&ElementSums::largest);
}

class Parity : public ::testing::TestWithParam<Row> {};

TEST_P(Parity, FollowsTheCurveOfOneProcess) {
  const Row& row = GetParam();
  wanted(row.model);
  run_ranks({.ranks = row.ranks()}, [&](const distributed::World& world) {
    Training training(row, world);
    for (int i = 0; i < steps; ++i) {
      expect_near(training.step(), row, i);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    Parity,
    ::testing::ValuesIn(rows()),
    [](const auto& info) { return info.param.name; });

class ParityOfCheckpoints : public ::testing::TestWithParam<const char*> {};

TEST_P(ParityOfCheckpoints, AnyLayoutLoadsWhatAnotherSaved) {
  const std::string model = GetParam();
  wanted(model);
  std::vector<Row> layouts{
      {.name = "one"},
      {.name = "tensor2", .tensor = 2, .stage = 1},
      {.name = "tensor2_data2",
       .tensor = 2,
       .data = 2,
       .stage = 3,
       .sequence_parallel = true},
      {.name = "data2_pipeline2", .data = 2, .pipeline = 2, .stage = 2}};
  if (model == "gpt") {
    layouts.push_back(
        {.name = "interleaved",
         .pipeline = 2,
         .stage = 1,
         .schedule = "interleaved",
         .virtual_layers = 1});
    layouts.push_back({.name = "ring2", .context = 2, .stage = 3});
  }
  if (model == "gpt_few_keys") {
    layouts = {
        {.name = "one"},
        {.name = "tensor4", .tensor = 4, .stage = 1},
        {.name = "tensor2", .tensor = 2, .stage = 3},
        {.name = "tensor4_overlapped",
         .tensor = 4,
         .sequence_parallel = true,
         .flags = {"--tp-comm-overlap"}}};
  }
  if (parity::has_experts(model)) {
    layouts = {
        {.name = "one"},
        {.name = "data2_expert2", .data = 2, .expert = 2, .stage = 1},
        {.name = "data4_expert4", .data = 4, .expert = 4, .stage = 3},
        {.name = "tensor2_data2_expert2",
         .tensor = 2,
         .data = 2,
         .expert = 2,
         .stage = 2}};
  }
  for (Row& layout : layouts) {
    layout.model = model;
  }
  const TemporaryFolder folder;
  for (const Row& saver : layouts) {
    parity::save_half_way(
        saver,
        {.ranks = saver.ranks()},
        folder.path() / saver.name);
    for (const Row& loader : layouts) {
      run_ranks(
          {.ranks = loader.ranks()},
          [&](const distributed::World& world) {
            parity::resume_half_way(
                loader,
                world,
                folder.path() / saver.name,
                [&](const Point& got, int step) {
                  expect_near(got, loader, step);
                });
          });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    ParityOfCheckpoints,
    ::testing::Values(
        "gpt",
        "gpt_dropout",
        "bert",
        "t5_relative",
        "gpt_experts",
        "gpt_few_keys",
        "t5_experts"),
    [](const auto& info) { return std::string(info.param); });

} // namespace
} // namespace cairn::pretrain::parity_test
