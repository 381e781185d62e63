#include "engine/build/layout_plan.h"
#include "support/error_text.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <memory>

namespace cairn::engine::layout_plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Net final : torch::nn::Module {
  Net() {
    register_module("embed", embed);
    register_module("linear", linear);
  }
  torch::nn::Embedding embed{8, 4};
  torch::nn::Linear linear{4, 4};
};

/// A plan of a Net: embed.weight, linear.weight, linear.bias.
LayoutPlan plan(
    const Net& net,
    const std::vector<ParameterGroup>& groups,
    const optim::Rule* rule = nullptr) {
  const ModelParameters parameters = parameters_of(net);
  return plan_layout(
      parameters,
      unshared(net, parameters).parameters,
      groups,
      {.lr = 0.1, .weight_decay = 0.01},
      rule);
}

std::vector<int> groups_in(const LayoutPlan& plan) {
  std::vector<int> groups;
  for (const zero::ParameterSpec& spec : plan.parameters) {
    groups.push_back(spec.trainable ? spec.group : -1);
  }
  return groups;
}

TEST(LayoutPlan, OneGroupHasAll) {
  const Net net;
  const LayoutPlan all = plan(net, {});
  EXPECT_THAT(groups_in(all), ElementsAre(0, 0, 0));
  EXPECT_THAT(
      all.groups,
      ElementsAre(optim::GroupValues{.lr = 0.1, .weight_decay = 0.01}));
  EXPECT_EQ(all.parameters[1].name, "linear.weight");
  EXPECT_THAT(all.parameters[1].shape, ElementsAre(4, 4));
}

TEST(LayoutPlan, WhatIsInNoGroupIsNotTrained) {
  Net net;
  net.linear->bias.set_requires_grad(false);
  const LayoutPlan two = plan(
      net,
      {{.parameters = {net.linear->bias}},
       {.parameters = {net.linear->weight}, .values = {.lr = 0.5}}});
  EXPECT_THAT(groups_in(two), ElementsAre(-1, 1, -1));
  EXPECT_EQ(two.groups[0].lr, 0.1);
  EXPECT_EQ(two.groups[1].lr, 0.5);
  EXPECT_EQ(two.groups[1].weight_decay, 0.01);
}

TEST(LayoutPlan, ARuleThatLeavesParametersSplitsGroups) {
  const Net net;
  config::OptimizerConfig config{.type = "muon", .params = {}};
  const auto rule = optim::make_rule(config);
  const LayoutPlan split = plan(net, {}, rule.get());
  EXPECT_THAT(groups_in(split), ElementsAre(1, 0, 1));
  ASSERT_EQ(split.groups.size(), 2U);
  EXPECT_EQ(split.groups[1].lr, rule->rest_values()->lr);
  EXPECT_EQ(split.groups[1].weight_decay, 0.01) << "the group's own";
  EXPECT_NE(split.parameters[0].kind, split.parameters[1].kind)
      << "they have different states";
  EXPECT_EQ(split.parameters[0].kind, split.parameters[2].kind);
}

TEST(LayoutPlan, RefusesGroupsThatDoNotFit) {
  Net net;
  const Net other;
  const auto refusal = [&](const std::vector<ParameterGroup>& groups) {
    return error_text<UsageError>([&] { plan(net, groups); });
  };
  EXPECT_THAT(
      refusal({{.parameters = {other.linear->weight}}}),
      HasSubstr("group 0: a parameter that is not the model's"));
  EXPECT_THAT(
      refusal(
          {{.parameters = {net.linear->bias}},
           {.parameters = {net.linear->bias}}}),
      HasSubstr("linear.bias: a parameter is in two groups"));
  for (at::Tensor& parameter : net.parameters()) {
    parameter.set_requires_grad(false);
  }
  EXPECT_THAT(refusal({}), HasSubstr("no parameter is trained"));
}

} // namespace
} // namespace cairn::engine::layout_plan_test
