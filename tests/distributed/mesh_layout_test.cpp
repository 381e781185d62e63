#include "support/error_text.h"

#include <cairn/distributed/mesh_layout.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::distributed::mesh_layout_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Groups = std::vector<std::vector<int>>;

Groups parse_groups(const std::string& text) {
  Groups groups;
  std::istringstream list(text);
  for (std::string group; std::getline(list, group, '|');) {
    std::vector<int>& ranks = groups.emplace_back();
    std::istringstream members(group);
    for (std::string rank; std::getline(members, rank, ',');) {
      ranks.push_back(std::stoi(rank));
    }
  }
  return groups;
}

std::vector<Axis> parse_axes(
    const std::string& kind,
    const std::string& token) {
  const bool expert = kind == "expert";
  const std::map<std::string, Axis> names = {
      {"tp", Axis::tensor},
      {"cp", Axis::context},
      {"ep", Axis::expert},
      {"dp", expert ? Axis::expert_data : Axis::data},
      {"pp", Axis::pipeline}};
  std::vector<Axis> axes;
  std::istringstream list(token);
  for (std::string name; std::getline(list, name, '-');) {
    axes.push_back(names.at(name));
  }
  return axes;
}

TEST(MeshLayout, MakesTheGroupsThatMegatronMakes) {
  std::ifstream golden(CAIRN_GOLDEN_DIR "/mesh/groups.txt");
  ASSERT_TRUE(golden) << "golden file missing";
  MeshShape shape;
  int compared = 0;
  for (std::string line; std::getline(golden, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "shape") {
      words >> shape.data >> shape.pipeline >> shape.tensor >> shape.expert >>
          shape.context;
      continue;
    }
    std::string token;
    std::string groups;
    words >> token >> groups;
    const MeshLayout layout(shape);
    const std::vector<Axis> axes = parse_axes(kind, token);
    const Groups expected = parse_groups(groups);
    EXPECT_EQ(layout.groups(axes), expected) << line;
    for (std::size_t index = 0; index < expected.size(); ++index) {
      for (const int rank : expected[index]) {
        EXPECT_EQ(layout.group_of(rank, axes), expected[index]) << line;
        EXPECT_EQ(layout.group_index(rank, axes), static_cast<int>(index));
      }
    }
    ++compared;
  }
  EXPECT_EQ(compared, 130);
}

TEST(MeshLayout, CutsAThousandRanks) {
  const MeshShape shape =
      {.data = 16, .pipeline = 4, .tensor = 8, .expert = 16, .context = 2};
  const MeshLayout layout(shape);
  ASSERT_EQ(layout.world_size(), 1024);
  EXPECT_EQ(layout.degree(Axis::expert_data), 2);
  const std::vector<std::vector<Axis>> combinations = {
      {Axis::tensor},
      {Axis::context},
      {Axis::data},
      {Axis::pipeline},
      {Axis::expert},
      {Axis::expert_data},
      {Axis::pipeline, Axis::tensor},
      {Axis::data, Axis::context},
      {Axis::tensor, Axis::expert, Axis::pipeline}};
  for (const auto& axes : combinations) {
    std::size_t expected = 1;
    for (const Axis axis : axes) {
      expected *= static_cast<std::size_t>(layout.degree(axis));
    }
    std::set<int> seen;
    for (const auto& group : layout.groups(axes)) {
      EXPECT_EQ(group.size(), expected);
      seen.insert(group.begin(), group.end());
      for (std::size_t i = 0; i < group.size() && axes.size() == 1; ++i) {
        EXPECT_EQ(layout.coordinate(group[i], axes[0]), static_cast<int>(i));
      }
    }
    EXPECT_EQ(seen.size(), 1024U);
  }
  EXPECT_EQ(layout.next_stage(1023), 255);
  EXPECT_EQ(layout.previous_stage(0), 768);
  EXPECT_TRUE(layout.is_first_stage(255));
  EXPECT_TRUE(layout.is_last_stage(768));
  EXPECT_FALSE(layout.is_last_stage(767));
  EXPECT_THAT(layout.embedding_group_of(300), ElementsAre(44, 812));
}

TEST(MeshLayout, APipelineOfOneHoldsItsEmbeddingAlone) {
  EXPECT_THAT(MeshLayout({.data = 4}).embedding_group_of(2), ElementsAre(2));
}

TEST(MeshLayout, RefusesDegreesThatDoNotFillTheWorld) {
  const std::string proposes = error_text(
      [] { MeshLayout({.data = 2, .pipeline = 2, .tensor = 2}, 12); });
  EXPECT_THAT(proposes, HasSubstr("world size 12"));
  EXPECT_THAT(
      proposes,
      HasSubstr("data 2 x context 1 x tensor 2 x pipeline 2"));
  EXPECT_THAT(proposes, HasSubstr("data 3 would fill it"));

  EXPECT_THAT(
      error_text([] { MeshLayout({.pipeline = 2, .tensor = 4}, 12); }),
      HasSubstr("context x tensor x pipeline = 8 does not divide 12"));
  EXPECT_THAT(
      error_text([] { MeshLayout({.data = 4, .expert = 3}, 4); }),
      HasSubstr("expert 3 does not divide data 4 x context 1 = 4"));
  EXPECT_THAT(
      error_text([] { MeshLayout({.data = 0}, 1); }),
      HasSubstr("at least 1"));
  // Products beyond 32 bits must not wrap round to a number that fits.
  EXPECT_THAT(
      error_text([] {
        MeshLayout({.data = 65536, .tensor = 65536, .context = 65536}, 65536);
      }),
      HasSubstr("do not multiply"));
}

TEST(MeshLayout, InfersTheDataDegree) {
  EXPECT_EQ(
      MeshShape::infer(24, {.pipeline = 2, .tensor = 3, .context = 2}),
      (MeshShape{.data = 2, .pipeline = 2, .tensor = 3, .context = 2}));
  EXPECT_THAT(
      error_text([] { MeshShape::infer(6, {.pipeline = 2, .tensor = 2}); }),
      HasSubstr("start a multiple of 4 ranks"));
  EXPECT_THAT(
      error_text([] { MeshShape::infer(0, {}); }),
      HasSubstr("at least 1"));
}

TEST(MeshLayout, RefusesRanksAndAxesThatMakeNoSense) {
  const MeshLayout layout({.data = 2});
  EXPECT_THAT(
      error_text<UsageError>([&] { layout.coordinate(2, Axis::data); }),
      HasSubstr("no rank 2"));
  EXPECT_THAT(
      error_text<UsageError>([&] { layout.group_of(-1, Axis::data); }),
      HasSubstr("no rank -1"));
  const Axis both[] = {Axis::data, Axis::expert};
  EXPECT_THAT(
      error_text<UsageError>([&] { layout.groups(both); }),
      HasSubstr("cut the same ranks"));
}

} // namespace
} // namespace cairn::distributed::mesh_layout_test
