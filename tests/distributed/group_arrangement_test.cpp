#include "distributed/mesh/group_arrangement.h"
#include "support/error_text.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace cairn::distributed::group_arrangement_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Lists = std::vector<std::vector<int>>;

/// The groups of all ranks, from the lists of groups along two axes.
std::vector<GivenGroups> given(const Lists& tensor, const Lists& data) {
  std::vector<GivenGroups> result(4);
  for (int rank = 0; rank < 4; ++rank) {
    for (GivenGroup& group : result[rank]) {
      group.ranks = {rank};
    }
    const auto take = [&](std::size_t axis, const Lists& lists) {
      for (const std::vector<int>& ranks : lists) {
        if (std::ranges::find(ranks, rank) != ranks.end()) {
          result[rank][axis].ranks = ranks;
        }
      }
    };
    take(0, tensor);
    take(2, data);
  }
  return result;
}

std::string refusal(const std::vector<GivenGroups>& groups) {
  return error_text<UsageError>([&] { arrange(groups); });
}

TEST(GroupArrangement, FindsTheRankAtEveryPlace) {
  EXPECT_THAT(
      arrange(given({{0, 1}, {2, 3}}, {{0, 2}, {1, 3}})),
      ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(
      arrange(given({{0, 2}, {1, 3}}, {{0, 1}, {2, 3}})),
      ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(
      arrange(given({{3, 0}, {2, 1}}, {{2, 3}, {1, 0}})),
      ElementsAre(2, 1, 3, 0));
  EXPECT_THAT(arrange(given({{2, 0, 3, 1}}, {})), ElementsAre(2, 0, 3, 1));
}

TEST(GroupArrangement, RefusesGroupsThatMembersSeeDifferently) {
  EXPECT_THAT(
      refusal(given({{0, 1}, {2, 3}}, {{0, 2}, {1, 3}, {3, 0}})),
      AllOf(
          HasSubstr("members of one group were given different groups"),
          HasSubstr("rank 1 has the data group"),
          HasSubstr("ranks 3 0")));
  std::vector<GivenGroups> groups = given({{0, 1}, {2, 3}}, {{0, 2}, {1, 3}});
  groups[2][2].name = "another";
  EXPECT_THAT(refusal(groups), HasSubstr("\"another\" of ranks 0 2"));
}

TEST(GroupArrangement, RefusesGroupsOfOtherRanks) {
  std::vector<GivenGroups> groups = given({{0, 1}, {2, 3}}, {{0, 2}, {1, 3}});
  groups[1][0].ranks = {2, 3};
  EXPECT_THAT(refusal(groups), HasSubstr("different groups"));
  groups[0][0].ranks = {0};
  EXPECT_THAT(refusal(groups), HasSubstr("a group that it is not in"));
  groups = given({}, {{0, -1}});
  EXPECT_THAT(refusal(groups), HasSubstr("outside of the 4 ranks"));
}

TEST(GroupArrangement, RefusesSizesThatDoNotFillTheWorld) {
  EXPECT_THAT(
      refusal(given({{0, 1}, {2, 3}}, {})),
      AllOf(
          HasSubstr("do not multiply to the 4 ranks"),
          HasSubstr("tensor 2 x context 1 x data 1 x pipeline 1")));
  EXPECT_THAT(
      refusal(given({}, {{0, 1, 2}})),
      HasSubstr("groups along one axis have different sizes"));
}

TEST(GroupArrangement, RefusesGroupsThatAreNoGrid) {
  EXPECT_THAT(
      refusal(given({{0, 1}, {2, 3}}, {{0, 1}, {2, 3}})),
      AllOf(
          HasSubstr("do not cross in a grid"),
          HasSubstr("ranks 0 and 1 are in one tensor group")));
  // Every rank has a place of its own, but rank 1 holds the other half.
  EXPECT_THAT(
      refusal(given({{0, 2}, {3, 1}}, {{0, 1}, {2, 3}})),
      HasSubstr("do not cross in a grid"));
}

} // namespace
} // namespace cairn::distributed::group_arrangement_test
