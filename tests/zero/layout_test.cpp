#include "zero/internal/layout.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace cairn::zero::layout_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<ParameterSpec> small_model() {
  return {
      {"embedding", {100, 8}, 0},
      {"norm.weight", {8}, 1},
      {"norm.bias", {8}, 1},
      {"mlp.weight", {32, 8}, 0},
      {"mlp.bias", {32}, 1},
      {"frozen", {16}, 0, false}};
}

TEST(Layout, FillsBucketsInBackwardOrder) {
  const Layout layout(
      small_model(),
      {.world = 2, .bucket_elements = 400, .alignment = 8});
  ASSERT_EQ(layout.buckets().size(), 3U);
  // The group-0 matrix comes first, then its group-1 neighbours.
  EXPECT_THAT(
      layout.buckets()[0].members,
      ElementsAre(
          Placement{3, 0, 256},
          Placement{4, 256, 32},
          Placement{2, 288, 8},
          Placement{1, 296, 8}));
  EXPECT_EQ(layout.buckets()[0].elements, 304);
  EXPECT_THAT(layout.buckets()[1].members, ElementsAre(Placement{0, 0, 800}));
  EXPECT_FALSE(layout.buckets()[2].trainable);
  EXPECT_EQ(layout.bucket_of(4), 0);
  EXPECT_EQ(layout.placement_of(4).offset, 256);
}

TEST(Layout, CutsShardsIntoSlicesAndSegments) {
  const Layout layout(
      small_model(),
      {.world = 2, .bucket_elements = 400, .alignment = 8});
  EXPECT_EQ(layout.shard(0, 1), (Range{152, 304}));
  EXPECT_THAT(
      layout.slices(0, 1),
      ElementsAre(
          Slice{3, {152, 256}, 152},
          Slice{4, {0, 32}, 256},
          Slice{2, {0, 8}, 288},
          Slice{1, {0, 8}, 296}));
  EXPECT_THAT(
      layout.segments(0, layout.shard(0, 1)),
      ElementsAre(Segment{0, {152, 256}}, Segment{1, {256, 304}}));
  EXPECT_THAT(layout.slices(0, 0), ElementsAre(Slice{3, {0, 152}, 0}));
}

TEST(Layout, SmallParametersStayWholeWhenAsked) {
  const Layout layout(
      small_model(),
      {.world = 2,
       .bucket_elements = 1000,
       .persistent_below = 20,
       .alignment = 8});
  for (int i = 0; i < 6; ++i) {
    const Bucket& bucket = layout.buckets()[layout.bucket_of(i)];
    EXPECT_EQ(bucket.persistent, layout.parameters()[i].elements() < 20) << i;
  }
}

TEST(Layout, KindsDoNotShareBuckets) {
  auto parameters = small_model();
  parameters[3].kind = 1;
  const Layout layout(parameters, {.bucket_elements = 2000, .alignment = 8});
  ASSERT_EQ(layout.buckets().size(), 3U);
  EXPECT_THAT(layout.buckets()[0].members, ElementsAre(Placement{3, 0, 256}));
  EXPECT_EQ(layout.buckets()[1].members.size(), 4U);
}

/// Each bucket leaves as soon as it is complete: none waits for the end because
/// of its kind.
TEST(Layout, BucketsOfAllKindsComeInBackwardOrder) {
  std::vector<ParameterSpec> parameters{{.name = "frozen", .shape = {64}}};
  parameters[0].trainable = false;
  for (int layer = 0; layer < 4; ++layer) {
    parameters.push_back({.name = "attention", .shape = {64}});
    parameters.push_back({.name = "norm", .shape = {8}});
    parameters.push_back({.name = "experts", .shape = {64}, .expert = true});
    parameters.push_back({.name = "tied", .shape = {64}, .kind = 9 - layer});
  }
  const Layout layout(
      parameters,
      {.world = 4,
       .expert_world = 2,
       .bucket_elements = 64,
       .persistent_below = 10});
  int complete = static_cast<int>(parameters.size());
  std::vector<bool> seen(parameters.size(), false);
  for (std::size_t b = 0; b < layout.buckets().size(); ++b) {
    const Bucket& bucket = layout.buckets()[b];
    EXPECT_EQ(bucket.trainable, b + 1 < layout.buckets().size());
    int first = complete;
    for (std::size_t i = 0; i < bucket.members.size(); ++i) {
      const int parameter = bucket.members[i].parameter;
      seen[static_cast<std::size_t>(parameter)] = true;
      first = std::min(first, parameter);
      EXPECT_EQ(layout.bucket_of(parameter), static_cast<int>(b));
      EXPECT_EQ(layout.placement_of(parameter), bucket.members[i]);
    }
    EXPECT_LT(first, complete);
    complete = first;
  }
  EXPECT_THAT(seen, ::testing::Each(true));
  EXPECT_TRUE(layout.buckets()[1].expert);
}

TEST(Layout, ExpertsAreSharedByFewerRanks) {
  const Layout layout(
      {{.name = "a", .shape = {100}},
       {.name = "experts", .shape = {4, 100}, .expert = true},
       {.name = "b", .shape = {100}}},
      {.world = 4, .expert_world = 2});
  ASSERT_EQ(layout.buckets().size(), 2U);
  const int experts = layout.bucket_of(1);
  EXPECT_EQ(layout.bucket_of(0), layout.bucket_of(2));
  EXPECT_TRUE(layout.buckets()[experts].expert);
  EXPECT_EQ(layout.buckets()[experts].elements, 512); // 448 in two even parts
  EXPECT_EQ(layout.shard(experts, 1), (Range{256, 512}));
  EXPECT_EQ(layout.shard(layout.bucket_of(0), 3).size(), 64);
  EXPECT_THROW(Layout({}, {.expert_world = 0}), UsageError);
}

TEST(Layout, EmptyRanksOwnOnlyPadding) {
  const Layout layout({{"w", {3}}}, {.world = 4, .alignment = 8});
  EXPECT_EQ(layout.padded_elements(), 32);
  EXPECT_EQ(layout.slices(0, 0).size(), 1U);
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_TRUE(layout.slices(0, rank).empty());
    EXPECT_EQ(layout.shard(0, rank).size(), 8);
  }
}

TEST(Layout, ZeroSizedAndScalarParameters) {
  const Layout layout(
      {{"scalar", {}}, {"none", {0, 5}}},
      {.world = 2, .alignment = 4});
  EXPECT_EQ(layout.elements(), 1);
  EXPECT_EQ(layout.slices(0, 0).size() + layout.slices(0, 1).size(), 1U);
}

/// Every element of every parameter has exactly one owner, in order.
void expect_partition(const Layout& layout) {
  std::vector<std::int64_t> next(layout.parameters().size(), 0);
  for (int b = 0; b < static_cast<int>(layout.buckets().size()); ++b) {
    std::int64_t covered = 0;
    for (int rank = 0; rank < layout.world(); ++rank) {
      const Range shard = layout.shard(b, rank);
      EXPECT_EQ(shard.begin, covered);
      covered = shard.end;
      std::int64_t in_segments = 0;
      for (const Segment& segment : layout.segments(b, shard)) {
        in_segments += segment.in_bucket.size();
      }
      EXPECT_EQ(in_segments, shard.size());
      for (const Slice& slice : layout.slices(b, rank)) {
        EXPECT_EQ(slice.in_parameter.begin, next[slice.parameter]);
        next[slice.parameter] = slice.in_parameter.end;
        EXPECT_EQ(
            slice.offset - slice.in_parameter.begin,
            layout.placement_of(slice.parameter).offset);
      }
    }
    EXPECT_EQ(covered, layout.buckets()[b].elements);
  }
  for (std::size_t i = 0; i < next.size(); ++i) {
    EXPECT_EQ(next[i], layout.parameters()[i].elements()) << i;
  }
}

TEST(Layout, EveryElementHasOneOwnerUpTo1024Ranks) {
  std::vector<ParameterSpec> gpt{
      {"wte", {50304, 768}, 0},
      {"wpe", {1024, 768}, 0}};
  for (int layer = 0; layer < 12; ++layer) {
    for (const auto& [rows, columns] :
         {std::pair{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}}) {
      gpt.push_back({"h.w", {rows, columns}, 0});
      gpt.push_back({"h.b", {rows}, 1});
    }
  }
  for (const int world : {1, 2, 3, 8, 64, 1000, 1024}) {
    for (const std::int64_t bucket :
         {std::int64_t{1}, bucket_capacity(124'000'000, 500'000'000, world)}) {
      const Layout layout(
          gpt,
          {.world = world,
           .bucket_elements = bucket,
           .persistent_below = 1000});
      expect_partition(layout);
    }
  }
}

TEST(Layout, PaddingIsSmall) {
  const Layout layout(
      {{"a", {5000, 5000}}, {"b", {5000}}},
      {.world = 64, .bucket_elements = 16'000'000});
  EXPECT_LT(
      static_cast<double>(layout.padded_elements()),
      1.001 * static_cast<double>(layout.elements()));
}

TEST(Layout, DescribesItselfAndRefusesNonsense) {
  const Layout layout(small_model(), {.world = 2, .bucket_elements = 400});
  EXPECT_THAT(layout.describe(), HasSubstr("mlp.weight … norm.weight (4)"));
  EXPECT_THAT(layout.describe(), HasSubstr("frozen, frozen"));
  EXPECT_THROW(Layout({}, {.world = 0}), UsageError);
  EXPECT_THROW(Layout({}, {.bucket_elements = 0}), UsageError);
}

TEST(BucketCapacity, IsAnEighthWithinLimits) {
  EXPECT_EQ(bucket_capacity(1000, 500'000'000, 1), 1'000'000);
  EXPECT_EQ(bucket_capacity(30'000'000, 500'000'000, 1024), 3'750'000);
  EXPECT_EQ(bucket_capacity(10'000'000'000, 500'000'000, 8), 16'000'000);
  EXPECT_EQ(bucket_capacity(10'000'000'000, 500'000'000, 64), 64'000'000);
  EXPECT_EQ(bucket_capacity(10'000'000'000, 500'000'000, 1024), 500'000'000);
  EXPECT_EQ(bucket_capacity(10'000'000'000, 5000, 1024), 5000);
}

} // namespace
} // namespace cairn::zero::layout_test
