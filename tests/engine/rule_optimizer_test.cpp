#include "zero/internal/rule_optimizer.h"
#include "engine/tier_that_writes_down.h"
#include "support/run_ranks.h"

#include <ATen/ops/full.h>
#include <cairn/config/optimizer_config.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::zero::rule_optimizer_test {
namespace {

using ::testing::ElementsAre;

/// So a divided tier keeps the states of the first layers nearest, and those
/// of the last arrive while the first compute.
TEST(RuleOptimizer, GivesItsTierTheFirstLayersFirst) {
  cairn::testing::run_ranks(1, [](const distributed::ProcessGroup& group) {
    constexpr std::int64_t elements = 64;
    std::vector<ParameterSpec> specs;
    std::vector<at::Tensor> parameters;
    for (const char* name : {"first", "middle", "last", "frozen"}) {
      specs.push_back({.name = name, .shape = {elements}});
      parameters.push_back(at::full({elements}, 1.0, at::kFloat));
    }
    specs.back().trainable = false;
    const Layout layout(specs, {.bucket_elements = elements});
    const RankGroups groups = make_rank_groups(group, group, {});
    FlatParameters flat(layout, parameters, groups, {});
    testing::AskedFor asked;
    const RuleOptimizer optimizer(
        layout,
        flat,
        optim::make_rule({.type = "adamw"}),
        groups,
        {},
        std::make_unique<testing::TierThatWritesDown>(asked));
    std::vector<std::string> names;
    for (const int bucket : asked.put) {
      names.push_back(
          specs[layout.buckets()[bucket].members.at(0).parameter].name);
    }
    EXPECT_THAT(names, ElementsAre("first", "middle", "last"));
  });
}

} // namespace
} // namespace cairn::zero::rule_optimizer_test
