#include "bench_gpt.h"

#include <ATen/Parallel.h>
#include <cairn/engine/initialize.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

// engine_volume_bench: what the policies of ZeRO send in a step, counted at the
// collectives of rank 0, as a table for docs/zero.md; and how far the losses
// get. A small GPT in bf16, groups of 2 ranks. Start it with four:
//
//   cairn launch --num_gpus 4 engine_volume_bench

namespace {

using namespace cairn;

constexpr int steps = 16;
constexpr std::int64_t length = 16;

struct Policy {
  const char* name;
  const char* keys;
};

constexpr Policy policies[] = {
    {"stage 3", R"("stage": 3)"},
    {"`mics_shard_size` 2", R"("stage": 3, "mics_shard_size": 2)"},
    {"`zero_hpz_partition_size` 2",
     R"("stage": 3, "zero_hpz_partition_size": 2)"},
    {"`zero_quantized_weights`",
     R"("stage": 3, "zero_quantized_weights": true)"},
    {"`zero_quantized_gradients`",
     R"("stage": 3, "zero_quantized_gradients": true)"},
    {"the last three",
     R"("stage": 3, "zero_hpz_partition_size": 2,
        "zero_quantized_weights": true, "zero_quantized_gradients": true)"}};

/// A layer is let go of after forward, as in a model that does not fit.
std::string config_of(const Policy& policy) {
  return fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0,
"bf16": {{"enabled": true}},
"zero_optimization": {{"stage3_max_reuse_distance": 0,
"stage3_param_persistence_threshold": 2000, "reduce_bucket_size": 300000, {}}},
"optimizer": {{"type": "AdamW", "params": {{"lr": 1e-3}}}}}})",
      policy.keys);
}

/// Bytes by where they go and what they are.
struct Sent {
  std::int64_t gather_all = 0;
  std::int64_t gather_group = 0;
  std::int64_t reduce_all = 0;
  std::int64_t reduce_group = 0;
  std::int64_t reduce_between = 0;
};

Sent sent_by(const distributed::World& world) {
  Sent sent;
  for (const distributed::Traffic& part : world.traffic()) {
    const std::string_view group =
        std::string_view(part.group).substr(0, part.group.find('#'));
    const bool gathers = part.operation == "all_gather";
    const bool within = group == "zero shards" || group == "zero inner";
    if (gathers) {
      (within ? sent.gather_group : sent.gather_all) += part.bytes;
    } else if (
        group.starts_with("zero replicas") || group.starts_with("zero outer")) {
      sent.reduce_between += part.bytes;
    } else if (
        part.operation == "reduce_scatter" || part.operation == "all_to_all") {
      (within ? sent.reduce_group : sent.reduce_all) += part.bytes;
    }
  }
  return sent;
}

struct Result {
  Sent step;
  double loss = 0;
  std::int64_t held = 0; ///< bytes of parameters
};

Result run(const distributed::World& world, const Policy& policy) {
  torch::manual_seed(0);
  const bench::GptShape shape{
      .layers = 4,
      .width = 192,
      .heads = 6,
      .vocabulary = 1024,
      .context = length};
  auto net = std::make_shared<bench::BenchGpt>(shape);
  auto [engine, optimizer, loader, schedule] = initialize(
      {.model = net,
       .config = config_of(policy),
       .world = world,
       .logger = Logger({.least = LogLevel::error})});
  Result result;
  Sent before;
  for (int i = 0; i < steps; ++i) {
    if (i == steps - 1) {
      before = sent_by(world);
    }
    // Each token follows from the one before: something to learn.
    const at::Tensor tokens = at::remainder(
        at::arange(length + 1, at::kLong).view({1, -1}) * 7 +
            at::arange(2, at::kLong).view({-1, 1}) * 11 + 2 * world.rank() +
            i % 8,
        shape.vocabulary);
    const at::Tensor loss = engine(
        tokens.narrow(1, 0, length).contiguous(),
        tokens.narrow(1, 1, length).contiguous());
    engine.backward(loss);
    result.held = engine.memory_report().parameters;
    engine.step();
    result.loss =
        world.group()
            .all_reduce(at::full({1}, loss.item<double>(), at::kDouble))
            .wait()
            .item<double>() /
        world.size();
  }
  const Sent after = sent_by(world);
  result.step = {
      .gather_all = after.gather_all - before.gather_all,
      .gather_group = after.gather_group - before.gather_group,
      .reduce_all = after.reduce_all - before.reduce_all,
      .reduce_group = after.reduce_group - before.reduce_group,
      .reduce_between = after.reduce_between - before.reduce_between};
  return result;
}

} // namespace

int main() {
  const auto world = distributed::init_distributed();
  at::set_num_threads(1);
  if (world.size() != 4) {
    fmt::print(stderr, "the table is that of 4 ranks, not {}\n", world.size());
    return 2;
  }
  if (world.rank() == 0) {
    fmt::print(
        "| policy | gathered from all | within the group | reduced over all | "
        "within the group | between groups | parameters held | loss |\n"
        "|---|---|---|---|---|---|---|---|\n");
    std::fflush(stdout);
  }
  for (const Policy& policy : policies) {
    const Result result = run(world, policy);
    const auto megabytes = [](std::int64_t bytes) {
      return static_cast<double>(bytes) / 1e6;
    };
    if (world.rank() == 0) {
      fmt::print(
          "| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.3f} "
          "|\n",
          policy.name,
          megabytes(result.step.gather_all),
          megabytes(result.step.gather_group),
          megabytes(result.step.reduce_all),
          megabytes(result.step.reduce_group),
          megabytes(result.step.reduce_between),
          megabytes(result.held),
          result.loss);
      std::fflush(stdout);
    }
  }
  world.group().barrier();
  return 0;
}
