#include "engine/nets.h"
#include "support/no_waiting.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/engine/initialize.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <nlohmann/json.hpp>

#include <memory>

// The host queues update after update and waits for none of them.

namespace cairn::host_waits_test {
namespace {

void expect_no_waits(const distributed::World& world, int stage, bool sixteen) {
  SCOPED_TRACE(::testing::Message() << "stage " << stage << " " << sixteen);
  const nlohmann::json config{
      {"train_micro_batch_size_per_gpu", 4},
      {"gradient_accumulation_steps", 2},
      {"gradient_clipping", 1.0},
      {"bf16", {{"enabled", sixteen}, {"check_grad_overflow", false}}},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-3}}}}},
      {"zero_optimization", {{"stage", stage}, {"reduce_bucket_size", 2100}}}};
  auto [engine, optimizer, loader, schedule] = initialize(
      {.model = std::make_shared<testing::TanhStack>(4, 32),
       .same_use_in_all_passes = true,
       .config = config.dump(),
       .world = world,
       .logger = Logger({.least = LogLevel::error})});
  const at::Tensor input = at::randn({4, 32}, engine.device());
  const auto pass = [&, &engine = engine] {
    engine.backward(engine(input).to(at::kFloat).square().mean());
    engine.step();
  };
  for (int i = 0; i < 4; ++i) { // the first update learns, both allocate
    pass();
  }
  torch::cuda::synchronize();
  const testing::NoWaiting scope;
  for (int i = 0; i < 6; ++i) {
    EXPECT_NO_THROW(pass());
  }
}

void expect_no_waits(const distributed::World& world) {
  for (const int stage : {0, 1, 2}) {
    for (const bool sixteen : {false, true}) {
      expect_no_waits(world, stage, sixteen);
    }
  }
}

TEST(HostWaits, AreNotInAnUpdateOnOneGpu) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [](const distributed::World& world) { expect_no_waits(world); });
}

TEST(HostWaits, AreNotInAnUpdateOverNccl) {
  testing::run_ranks(
      testing::ranks_on_one_gpu(2),
      [](const distributed::World& world) { expect_no_waits(world); });
}

} // namespace
} // namespace cairn::host_waits_test
