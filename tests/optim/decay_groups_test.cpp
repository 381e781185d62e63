#include <cairn/optim/parameter_groups.h>
#include <gmock/gmock.h>

namespace cairn::optim::decay_groups_test {
namespace {

using ::testing::ElementsAre;

const std::vector<NamedShape> parameters{
    {"embed.weight", {100, 8}},
    {"layers.0.norm.weight", {8}},
    {"layers.0.fc.weight", {8, 8}},
    {"layers.0.fc.bias", {8}},
    {"layers.0.odd.bias", {2, 8}}, // a bias, whatever its shape
    {"bias", {3, 3}},
    {"scale", {}},
};

TEST(GroupParameters, MegatronsRule) {
  const GroupRule rules[] = {no_decay_rule()};
  const auto groups =
      group_parameters(parameters, {.lr = 3, .weight_decay = 0.1}, rules);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_THAT(groups[0].members, ElementsAre(0, 2));
  EXPECT_EQ(groups[0].values.weight_decay, 0.1);
  EXPECT_EQ(groups[1].name, "no-decay");
  EXPECT_THAT(groups[1].members, ElementsAre(1, 3, 4, 5, 6));
  EXPECT_EQ(groups[1].values, (GroupValues{.lr = 3, .weight_decay = 0}));
}

TEST(GroupParameters, TheFirstRuleWinsAndEmptyGroupsAreLeftOut) {
  const GroupRule rules[] = {
      {.name = "embedding",
       .takes =
           [](const NamedShape& parameter) {
             return parameter.name.starts_with("embed");
           },
       .patch = {.lr = 9}},
      {.name = "nobody",
       .takes = [](const NamedShape&) { return false; },
       .patch = {}},
      {.name = "rest",
       .takes = [](const NamedShape&) { return true; },
       .patch = {.momentum = 0.5}},
  };
  const auto groups = group_parameters(parameters, {}, rules);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].name, "embedding");
  EXPECT_THAT(groups[0].members, ElementsAre(0));
  EXPECT_EQ(groups[0].values.lr, 9);
  EXPECT_THAT(groups[1].members, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(groups[1].values.momentum, 0.5);
}

TEST(GroupParameters, WithoutRulesThereIsOne) {
  const auto groups = group_parameters(parameters, {}, {});
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].members.size(), parameters.size());
}

} // namespace
} // namespace cairn::optim::decay_groups_test
