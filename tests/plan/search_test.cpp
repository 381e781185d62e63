// The search for a layout.

#include "plan/internal/search.h"
#include "plan/trainings.h"

#include <gtest/gtest.h>

#include <chrono>

namespace cairn::plan {
namespace {

TEST(PlanSearch, TheBestComeFirstAndFit) {
  const Training training = gpt(40, 5120, 40);
  const Cluster cluster = find_cluster("dgx-h100");
  const SearchResult found =
      search(training, cluster, {.gpus = 16, .global_batch = 256});
  ASSERT_GT(found.layouts.size(), 3U);
  for (std::size_t i = 0; i < found.layouts.size(); ++i) {
    EXPECT_TRUE(found.layouts[i].fits);
    EXPECT_EQ(found.layouts[i].layout.gpus, 16);
    if (i > 0) {
      EXPECT_GE(
          found.layouts[i].iteration_seconds,
          found.layouts[i - 1].iteration_seconds);
    }
  }
  EXPECT_GT(found.tried, 100);
}

TEST(PlanSearch, DegreesThatAreGivenStay) {
  const SearchResult found = search(
      gpt(40, 5120, 40),
      find_cluster("dgx-h100"),
      {.gpus = 16,
       .global_batch = 256,
       .tensor = 4,
       .pipeline = 2,
       .zero_stage = 1,
       .micro_batch = 2});
  ASSERT_FALSE(found.layouts.empty());
  for (const Estimate& each : found.layouts) {
    EXPECT_EQ(each.layout.tensor, 4);
    EXPECT_EQ(each.layout.pipeline, 2);
    EXPECT_EQ(each.layout.zero_stage, 1);
    EXPECT_EQ(each.layout.micro_batch, 2);
  }
}

TEST(PlanSearch, ExpertsAndSchedulesThatAreGivenStay) {
  Training training = gpt(24, 2048, 16);
  training.model.experts = model::ExpertsDescription{.counts = {8}};
  const auto layouts = [&](const SearchOptions& options) {
    const auto found = search(training, find_cluster("dgx-h100"), options);
    EXPECT_FALSE(found.layouts.empty());
    return found.layouts;
  };
  SearchOptions options{
      .gpus = 8,
      .global_batch = 64,
      .pipeline = 2,
      .expert = 2,
      .schedule = "zb-h1"};
  for (const Estimate& each : layouts(options)) {
    EXPECT_EQ(each.layout.expert, 2);
    EXPECT_EQ(each.layout.schedule, "zb-h1");
  }
  options.schedule = "interleaved";
  options.chunks = 3;
  for (const Estimate& each : layouts(options)) {
    EXPECT_EQ(each.layout.chunks, 3);
  }
  options.chunks.reset();
  options.chunk_size = 2; // of the 12 layers of a stage
  for (const Estimate& each : layouts(options)) {
    EXPECT_EQ(each.layout.chunks, 6);
  }
}

TEST(PlanSearch, AThousandGpusTakeLessThanTwoSeconds) {
  const auto begin = std::chrono::steady_clock::now();
  const SearchResult found = search(
      gpt(96, 12288, 96),
      find_cluster("selene-a100"),
      {.gpus = 1024, .global_batch = 1536});
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - begin;
  EXPECT_FALSE(found.layouts.empty());
  // The goal is 2 s; machines that run tests are shared with others.
  EXPECT_LT(took.count(), 6) << found.tried;
}

TEST(PlanSearch, OffloadsWhereNothingElseFits) {
  const SearchResult found = search(
      gpt(50, 4096, 32), // 10B on one V100
      find_cluster("dgx2-v100"),
      {.gpus = 1, .global_batch = 8});
  ASSERT_FALSE(found.layouts.empty());
  EXPECT_NE(found.layouts.front().layout.optimizer, Place::device);
}

TEST(PlanSearch, SaysWhatComesNearestWhereNothingFits) {
  const SearchResult found = search(
      gpt(96, 12288, 96),
      find_cluster("laptop"),
      {.gpus = 1, .global_batch = 8});
  EXPECT_TRUE(found.layouts.empty());
  ASSERT_FALSE(found.nearest.empty());
  EXPECT_NE(found.nearest.front().lacks, "");
  EXPECT_FALSE(cheapest_remedy(
      gpt(96, 12288, 96),
      find_cluster("laptop"),
      {.gpus = 1, .global_batch = 8}))
      << "a laptop has one GPU";
}

TEST(PlanSearch, TheNearestOfWhatDoesNotFitAreShownBesideWhatFits) {
  const SearchResult found = search(
      gpt(40, 5120, 40),
      find_cluster("dgx-h100"),
      {.gpus = 16, .global_batch = 256, .nearest = 4});
  EXPECT_FALSE(found.layouts.empty());
  ASSERT_EQ(found.nearest.size(), 4U);
  for (std::size_t i = 0; i < found.nearest.size(); ++i) {
    const Estimate& each = found.nearest[i];
    EXPECT_FALSE(each.fits);
    EXPECT_TRUE(each.lacks.starts_with("a GPU needs ")) << each.lacks;
    if (i > 0) {
      EXPECT_GE(each.memory.total(), found.nearest[i - 1].memory.total());
    }
  }
}

// Where one GPU has no room for all states, as few as need leave it.
TEST(PlanSearch, OffloadsNoMoreThanItMust) {
  const Training training = gpt(50, 4096, 32); // 10B
  const Cluster cluster = find_cluster("h200");
  const SearchResult found =
      search(training, cluster, {.gpus = 1, .global_batch = 8});
  ASSERT_FALSE(found.layouts.empty());
  const RunLayout& best = found.layouts.front().layout;
  EXPECT_EQ(best.optimizer, Place::cpu);
  EXPECT_TRUE(best.update_on_gpu);
  EXPECT_GT(best.offloaded, 0);
  EXPECT_LT(best.offloaded, 1);
  RunLayout less = best;
  less.offloaded -= 0.05;
  EXPECT_FALSE(estimate(training, less, cluster).fits);
}

TEST(PlanSearch, OffloadsBesideAPipeline) {
  const Training training = gpt(40, 5120, 40); // 13B
  const SearchResult found = search(
      training,
      find_cluster("v100-16gb-40g"),
      {.gpus = 8, .global_batch = 64, .pipeline = 8});
  ASSERT_FALSE(found.layouts.empty());
  for (const Estimate& each : found.layouts) {
    EXPECT_EQ(each.layout.pipeline, 8);
    EXPECT_EQ(each.layout.zero_stage, 1);
    EXPECT_EQ(each.layout.optimizer, Place::cpu);
    EXPECT_TRUE(each.fits);
  }
}

TEST(PlanSearch, AStageThatIsGivenStaysWithOffloading) {
  const SearchResult found = search(
      gpt(50, 4096, 32),
      find_cluster("h200"),
      {.gpus = 1, .global_batch = 8, .zero_stage = 3});
  ASSERT_FALSE(found.layouts.empty());
  for (const Estimate& each : found.layouts) {
    EXPECT_EQ(each.layout.zero_stage, 3);
  }
}

TEST(PlanSearch, ASearchWithoutResultHasARemedy) {
  const Training training = gpt(40, 5120, 40);
  const Cluster cluster = find_cluster("dgx-h100");
  // A stage that is given is in the way.
  const SearchOptions whole{
      .gpus = 8,
      .global_batch = 256,
      .tensor = 1,
      .pipeline = 1,
      .zero_stage = 0};
  EXPECT_TRUE(search(training, cluster, whole).layouts.empty());
  const auto freed = cheapest_remedy(training, cluster, whole);
  ASSERT_TRUE(freed);
  EXPECT_TRUE(freed->change.starts_with("leaving out --")) << freed->change;
  EXPECT_TRUE(freed->estimate.fits);
  // Nothing is in the way but the number of GPUs.
  const SearchOptions few{.gpus = 8, .global_batch = 64};
  const Training large = gpt(128, 25600, 160); // a trillion
  EXPECT_TRUE(search(large, cluster, few).layouts.empty());
  const auto more = cheapest_remedy(large, cluster, few);
  ASSERT_TRUE(more);
  EXPECT_TRUE(more->change.starts_with("--num-gpus ")) << more->change;
  EXPECT_TRUE(more->estimate.fits);
  EXPECT_GT(more->estimate.layout.gpus, few.gpus);
}

// The time of a search is that of its estimates, and those must not multiply
// with the GPUs: 404 and 1,310 when this was written, in 0.4 and 1.3 seconds.
TEST(PlanSearch, LargeClustersTakeFewEstimates) {
  for (const auto& [gpus, most] :
       {std::pair{1024, 1000}, std::pair{98304, 4000}}) {
    const SearchResult found = search(
        gpt(96, 12288, 96),
        find_cluster("dgx-h100"),
        {.gpus = gpus, .global_batch = gpus});
    EXPECT_FALSE(found.layouts.empty());
    EXPECT_LT(found.tried, most) << gpus;
  }
}

TEST(PlanSearch, ARemedyFits) {
  const Training training = gpt(40, 5120, 40);
  const Cluster cluster = find_cluster("dgx-h100");
  const RunLayout layout{
      .gpus = 16,
      .zero_stage = 0,
      .micro_batch = 1,
      .global_batch = 256};
  EXPECT_FALSE(estimate(training, layout, cluster).fits);
  const auto remedy = cheapest_remedy(training, layout, cluster);
  ASSERT_TRUE(remedy);
  EXPECT_TRUE(remedy->estimate.fits);
  EXPECT_NE(remedy->change, "");
}

} // namespace
} // namespace cairn::plan
