#include "engine/save/slice_owner.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn::engine::slice_owner_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Names of slices, with their begin and their number of elements.
struct Listed final : checkpoints::Sink {
  void put(const checkpoints::TensorSlice& slice) override {
    slices.push_back(
        slice.name + " " + std::to_string(slice.begin) + "+" +
        std::to_string(slice.values.numel()));
    for (std::int64_t i = 0; i < slice.values.numel(); ++i) {
      values.push_back(slice.values[i].item<float>());
    }
  }
  std::vector<std::string> slices;
  std::vector<float> values;
};

ParameterShare whole(std::int64_t elements) {
  return {.whole = {elements}, .elements = elements, .holders = {0}};
}

/// Two parameters of one bucket, whose first shard (of two) is this rank's.
class SliceOwnerTest : public ::testing::Test {
 protected:
  SliceOwner owner() const {
    return {layout_, shares_, 2, {.groups = groups_, .mesh = mesh_}};
  }
  Listed listed(zero::Range held) const {
    Listed sink;
    owner().put(
        sink,
        0,
        held,
        "weight",
        at::arange(held.begin, held.end, at::kFloat));
    return sink;
  }

  zero::Layout layout_{
      {{.name = "a", .shape = {6}, .group = 0},
       {.name = "b", .shape = {6}, .group = 1}},
      {.world = 2, .bucket_elements = 100}};
  std::vector<ParameterShare> shares_{whole(6), whole(6)};
  zero::RankGroups groups_;
  std::optional<distributed::ProcessMesh> mesh_;
};

TEST_F(SliceOwnerTest, PutsItsShardOfWhatItHolds) {
  const std::int64_t end = layout_.buckets()[0].elements;
  const zero::Range mine = owner().shard(0);
  EXPECT_EQ(mine.begin, 0);
  EXPECT_LT(mine.end, end);
  const Listed all = listed({0, end});
  EXPECT_EQ(all.slices, listed(mine).slices);
  EXPECT_EQ(all.values, listed(mine).values);
  EXPECT_FALSE(all.slices.empty());
  EXPECT_THAT(listed({mine.end, end}).slices, IsEmpty());
}

TEST_F(SliceOwnerTest, LeavesOutWhatOthersSpeakFor) {
  const std::int64_t end = layout_.buckets()[0].elements;
  const std::size_t before = listed({0, end}).slices.size();
  shares_[layout_.buckets()[0].members[0].parameter].holders = {1, 0};
  EXPECT_EQ(listed({0, end}).slices.size(), before - 1);
}

TEST_F(SliceOwnerTest, LeavesOutPadding) {
  const int first = layout_.buckets()[0].members[0].parameter;
  shares_[first].elements = 4;
  const std::string name = layout_.parameters()[first].name;
  EXPECT_THAT(
      listed({0, layout_.buckets()[0].elements}).slices[0],
      "weight/" + name + " 0+4");
}

TEST_F(SliceOwnerTest, SpeaksForTheGroupsThatBeginInItsShard) {
  const zero::Bucket& bucket = layout_.buckets()[0];
  const int first = layout_.parameters()[bucket.members[0].parameter].group;
  EXPECT_TRUE(owner().speaks_for_group(first));
  EXPECT_EQ(
      owner().speaks_for_group(1 - first),
      bucket.members[1].offset < owner().shard(0).end);
}

TEST_F(SliceOwnerTest, VisitsEverySliceOfAStretch) {
  // Parameters may lie apart in their bucket.
  const std::int64_t end = layout_.buckets()[0].elements;
  at::Tensor values = at::zeros({end});
  std::vector<std::int64_t> sizes;
  owner().for_each_slice(
      0,
      {0, end},
      values,
      [&](const zero::Slice&, at::Tensor& part) {
        part.fill_(1);
        sizes.push_back(part.numel());
      });
  EXPECT_THAT(sizes, ElementsAre(6, 6));
  EXPECT_EQ(values.sum().item<float>(), 12) << "parts are views";
}

} // namespace
} // namespace cairn::engine::slice_owner_test
