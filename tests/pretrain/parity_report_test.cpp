#include "pretrain/parity_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cairn::pretrain::parity_report_test {
namespace {

using parity::Distance;
using parity::DistanceOfRanks;
using parity::layout_of;
using parity::Point;

TEST(ParityReport, HasTheLargestDifferenceOfAnyStepAndRank) {
  Distance first;
  first.add({.losses = {4, 2}, .norm = 1}, {.losses = {4, 2.5}, .norm = 1});
  first.add({.losses = {3, 2}, .norm = 1}, {.losses = {3, 2}, .norm = 3});
  EXPECT_EQ(first.loss, 0.5);
  EXPECT_EQ(first.norm, 2);
  const DistanceOfRanks ranks;
  ranks.write(0, first);
  ranks.write(1, {.loss = 0.75, .norm = 1});
  EXPECT_EQ(ranks.largest(2).loss, 0.75);
  EXPECT_EQ(ranks.largest(2).norm, 2);
}

TEST(ParityReport, HidesNoRankThatHasDivergedOrDied) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  Distance diverged;
  diverged.add({.losses = {nan}, .norm = 1}, {.losses = {1}, .norm = 1});
  diverged.add({.losses = {1}, .norm = 1}, {.losses = {1}, .norm = 1});
  EXPECT_TRUE(std::isnan(diverged.loss));
  const DistanceOfRanks ranks;
  ranks.write(0, diverged);
  ranks.write(1, {.loss = 1, .norm = 1});
  EXPECT_TRUE(std::isnan(ranks.largest(2).loss));
  EXPECT_EQ(ranks.largest(2).norm, 1);
  EXPECT_TRUE(std::isnan(ranks.largest(3).norm)) << "nothing of rank 2";
}

TEST(ParityReport, NamesTheLayout) {
  EXPECT_EQ(layout_of({.name = "one"}), "gpt,zero=0");
  EXPECT_EQ(
      layout_of(
          {.name = "all",
           .tensor = 2,
           .data = 4,
           .pipeline = 2,
           .expert = 4,
           .context = 2,
           .context_kind = "a2a",
           .stage = 3,
           .zero = {{"mics_shard_size", 2}},
           .sequence_parallel = true,
           .recompute = true,
           .schedule = "zb-h1",
           .flags = {"--use-nccl-ub"}}),
      "gpt,tensor=2,data=4,pipeline=2,expert=4,context=2,context_kind=a2a,"
      "zero=3,mics_shard_size=2,schedule=zb-h1,sequence_parallel,recompute,"
      "--use-nccl-ub");
}

} // namespace
} // namespace cairn::pretrain::parity_report_test
