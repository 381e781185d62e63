#include "engine/nets.h"
#include "support/run_ranks.h"
#include "zero/plan/volume.h"

#include <ATen/Functions.h>
#include <cairn/engine/initialize.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// The bytes that every policy sends in a step, counted at the collectives, are
// those of the formula, which knows only names, shapes and numbers.

namespace cairn::zero_volume_test {
namespace {

using nlohmann::json;

constexpr int ranks = 4;
constexpr int depth = 6;
constexpr std::int64_t width = 128;

struct Stack : testing::TanhStack {
  Stack() : TanhStack(depth, width) {}
};

struct Way {
  int stage = 3;
  json keys = json::object();
  bool bf16 = false;
  int passes = 1;
};

json config_of(const Way& way) {
  json config{
      {"train_micro_batch_size_per_gpu", 1},
      {"gradient_accumulation_steps", way.passes},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-3}}}}},
      {"zero_optimization",
       {{"stage", way.stage},
        {"reduce_bucket_size", width * width},
        {"stage3_param_persistence_threshold", 2 * width}, // biases stay
        {"stage3_prefetch_bucket_size", 0},
        {"stage3_max_reuse_distance", 0}}}};
  config["bf16"]["enabled"] = way.bf16;
  config["zero_optimization"].update(way.keys);
  return config;
}

zero::Layout layout_of(const Stack& net, const Way& way, int shard_ranks) {
  std::vector<zero::ParameterSpec> specs;
  for (const auto& parameter : net.named_parameters()) {
    specs.push_back(
        {.name = parameter.key(), .shape = parameter.value().sizes().vec()});
  }
  return {
      specs,
      {.world = shard_ranks,
       .bucket_elements = width * width,
       .persistent_below = way.stage == 3 ? 2 * width : 0}};
}

/// Gathers of each weight: before forward and before backward. But the first
/// has no input that wants a gradient, the last two are still live, and so is
/// the second when another pass begins.
std::vector<int> gathers_of(const zero::Layout& layout, int passes) {
  std::vector<int> times(layout.buckets().size(), 2 * passes);
  for (int i = 0; i < static_cast<int>(layout.parameters().size()); ++i) {
    const std::string& name = layout.parameters()[i].name;
    int& its = times[layout.bucket_of(i)];
    if (name == "layers.0.weight" || name == "layers.4.weight" ||
        name == "layers.5.weight") {
      its = passes;
    } else if (name == "layers.1.weight") {
      its = passes + 1;
    }
  }
  return times;
}

std::int64_t sent(
    const distributed::World& world,
    std::string_view group,
    std::string_view operation) {
  std::int64_t bytes = 0;
  for (const distributed::Traffic& part : world.traffic()) {
    // A group that is made again is "name#2".
    if (part.group.substr(0, part.group.find('#')) == group &&
        part.operation == operation) {
      bytes += part.bytes;
    }
  }
  return bytes;
}

zero::StepVolume measured(
    const distributed::World& world,
    const std::string& shards) {
  return {
      .gather = sent(world, shards, "all_gather"),
      .gather_outer = sent(world, "zero outer", "all_gather"),
      .gather_inner = sent(world, "zero inner", "all_gather"),
      .reduce = sent(world, shards, "reduce_scatter") +
          sent(world, shards, "all_to_all"),
      .reduce_inner = sent(world, "zero inner", "all_to_all"),
      .reduce_outer = sent(world, "zero outer", "all_to_all"),
      .reduce_replicas = sent(world, "zero replicas", "all_reduce")};
}

void check(const distributed::World& world, const Way& way) {
  SCOPED_TRACE(config_of(way).dump());
  torch::manual_seed(1);
  auto net = std::make_shared<Stack>();
  const zero::Policy policy = zero::policy_of(
      config::Config::load({.json = config_of(way).dump(), .world_size = ranks})
          .deepspeed.zero);
  const int shard_ranks = policy.shard_ranks > 0 ? policy.shard_ranks : ranks;
  const zero::Layout layout = layout_of(*net, way, shard_ranks);
  const std::int64_t bytes = way.bf16 ? 2 : 4;
  const zero::StepVolume wanted = step_volume(
      layout,
      policy,
      {.ranks = ranks,
       .parameter_bytes = bytes,
       .gradient_bytes = bytes,
       .passes = way.passes,
       .gathers = gathers_of(layout, way.passes)});

  auto [engine, optimizer, loader, schedule] = initialize(
      {.model = net,
       .config = config_of(way).dump(),
       .world = world,
       .logger = Logger({.least = LogLevel::error})});
  const auto step = [&, &engine = engine] {
    for (int pass = 0; pass < way.passes; ++pass) {
      const at::Tensor x = at::full({2, width}, 0.1 * (1 + world.rank()));
      engine.backward(engine(x).to(at::kFloat).square().mean());
      engine.step();
    }
  };
  step(); // the first does not know the order of uses
  step();
  const std::string shards =
      policy.shard_ranks > 0 ? "zero shards" : world.group().name();
  const zero::StepVolume before = measured(world, shards);
  step();
  const zero::StepVolume after = measured(world, shards);
  EXPECT_EQ(after.gather - before.gather, wanted.gather);
  EXPECT_EQ(after.gather_outer - before.gather_outer, wanted.gather_outer);
  EXPECT_EQ(after.gather_inner - before.gather_inner, wanted.gather_inner);
  EXPECT_EQ(after.reduce - before.reduce, wanted.reduce);
  EXPECT_EQ(after.reduce_inner - before.reduce_inner, wanted.reduce_inner);
  EXPECT_EQ(after.reduce_outer - before.reduce_outer, wanted.reduce_outer);
  EXPECT_EQ(
      after.reduce_replicas - before.reduce_replicas,
      wanted.reduce_replicas);
  EXPECT_GT(wanted.sum(), 0);
}

TEST(ZeroVolume, IsWhatTheLayoutSays) {
  const json mics{{"mics_shard_size", 2}};
  const json hpz{{"zero_hpz_partition_size", 2}};
  const json weights{{"zero_quantized_weights", true}};
  const json gradients{{"zero_quantized_gradients", true}};
  json all = hpz;
  all.update(weights);
  all.update(gradients);
  testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
    for (const Way& way : std::vector<Way>{
             {.stage = 1},
             {.stage = 1, .keys = mics, .passes = 2},
             {.stage = 2, .keys = gradients, .passes = 2},
             {},
             {.bf16 = true},
             {.keys = mics, .bf16 = true, .passes = 2},
             {.keys = hpz},
             {.keys = weights},
             {.keys = gradients, .bf16 = true},
             {.keys = all, .bf16 = true}}) {
      check(world, way);
    }
  });
}

} // namespace
} // namespace cairn::zero_volume_test
