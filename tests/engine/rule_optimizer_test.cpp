#include "zero/internal/rule_optimizer.h"
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

/// Memory that writes down which buckets it is given.
class WritesDown final : public ShardTier {
 public:
  explicit WritesDown(std::vector<int>& buckets) : buckets_(buckets) {}

  bool keeps_memory() const override { return inner_->keeps_memory(); }
  void put(int bucket, ShardTensors tensors) override {
    buckets_.push_back(bucket);
    inner_->put(bucket, std::move(tensors));
  }
  void prefetch(int bucket) override { inner_->prefetch(bucket); }
  ShardTensors acquire(int bucket) override { return inner_->acquire(bucket); }
  ShardTensors acquire_blank(int bucket) override {
    return inner_->acquire_blank(bucket);
  }
  void give_back(int bucket, bool changed) override {
    inner_->give_back(bucket, changed);
  }
  void settle() override { inner_->settle(); }
  Bytes bytes() const override { return inner_->bytes(); }

 private:
  std::vector<int>& buckets_;
  std::unique_ptr<ShardTier> inner_ = make_memory_tier();
};

/// So a divided tier keeps the states of the first layers nearest, and those
/// of the last arrive while the first compute.
TEST(RuleOptimizer, GivesItsTierTheFirstLayersFirst) {
  testing::run_ranks(1, [](const distributed::ProcessGroup& group) {
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
    std::vector<int> buckets;
    const RuleOptimizer optimizer(
        layout,
        flat,
        optim::make_rule({.type = "adamw"}),
        groups,
        {},
        std::make_unique<WritesDown>(buckets));
    std::vector<std::string> names;
    for (const int bucket : buckets) {
      names.push_back(
          specs[layout.buckets()[bucket].members.at(0).parameter].name);
    }
    EXPECT_THAT(names, ElementsAre("first", "middle", "last"));
  });
}

} // namespace
} // namespace cairn::zero::rule_optimizer_test
