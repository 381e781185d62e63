#include "engine/parity.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <cairn/engine/initialize.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <string>

// The engine on a GPU: every stage and offload mode trains as the CPU does.

namespace cairn::engine_gpu_test {
namespace {

using testing::Curve;
using testing::json;
using testing::TinyGpt;

json with_offload(int stage, const char* device, const std::string& folder) {
  json changes = testing::stage(stage);
  changes["zero_optimization"]["offload_optimizer"] = {
      {"device", device},
      {"nvme_path", folder}};
  if (stage == 3) {
    changes["zero_optimization"]["offload_param"] = {
        {"device", device},
        {"nvme_path", folder},
        {"max_in_cpu", 0}};
    changes["zero_optimization"]["stage3_param_persistence_threshold"] = 0;
  }
  return changes;
}

void on_gpu(const std::function<void(const distributed::World&)>& body) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [&](const distributed::World& world) {
        ASSERT_EQ(world.device_name(), "cuda:0");
        body(world);
      });
}

TEST(EngineGpu, EveryStageFollowsTheCpu) {
  on_gpu([](const distributed::World& world) {
    const Curve wanted = testing::reference<TinyGpt>(2);
    for (int stage = 0; stage <= 3; ++stage) {
      SCOPED_TRACE("stage " + std::to_string(stage));
      const Curve got =
          testing::trained<TinyGpt>(world, testing::stage(stage), 2);
      testing::expect_close(got, wanted, 1e-4);
    }
  });
}

TEST(EngineGpu, OffloadChangesNothing) {
  const testing::TemporaryFolder folder;
  on_gpu([&](const distributed::World& world) {
    for (const int stage : {1, 2, 3}) {
      for (const bool sixteen : {false, true}) {
        json plain = testing::stage(stage);
        plain["bf16"]["enabled"] = sixteen;
        const Curve wanted = testing::trained<TinyGpt>(world, plain, 2);
        for (const char* device : {"cpu", "nvme"}) {
          SCOPED_TRACE(
              ::testing::Message() << "stage " << stage << ", " << device
                                   << (sixteen ? ", bf16" : ", fp32"));
          json changes = with_offload(stage, device, folder.path().string());
          changes["bf16"]["enabled"] = sixteen;
          testing::expect_close(
              testing::trained<TinyGpt>(world, changes, 2),
              wanted,
              1e-5);
        }
      }
    }
  });
}

TEST(EngineGpu, SixteenBitsStayNear) {
  on_gpu([](const distributed::World& world) {
    const Curve wanted = testing::reference<TinyGpt>(1);
    for (const char* type : {"bf16", "fp16", "amp"}) {
      SCOPED_TRACE(type);
      json changes = testing::stage(std::string(type) == "amp" ? 0 : 1);
      changes[type]["enabled"] = true;
      const Curve got = testing::trained<TinyGpt>(world, changes, 1);
      for (int step = 0; step < testing::steps; ++step) {
        EXPECT_NEAR(got.losses[step], wanted.losses[step], 0.03) << step;
      }
    }
  });
}

/// fp16 has no room for gradients as small as these; the loss scale lifts them.
TEST(EngineGpu, AmpKeepsSmallGradients) {
  on_gpu([](const distributed::World& world) {
    const auto norm = [&](bool amp) {
      torch::manual_seed(3);
      const Initialized all = initialize(
          {.model = torch::nn::Linear(8, 8),
           .config =
               json{
                   {"train_batch_size", 4},
                   {"optimizer", {{"type", "Adam"}}},
                   {"amp", {{"enabled", amp}}}}
                   .dump(),
           .world = world});
      Engine engine = all.engine;
      EXPECT_EQ(engine.progress().loss_scale, amp ? 65536 : 1);
      const at::Tensor ones = at::ones({4, 8}, engine.device());
      engine.backward(engine(ones).to(at::kFloat).sum() * 1e-9);
      engine.step();
      EXPECT_EQ(engine.progress().skipped_steps, 0);
      const double norm = engine.gradient_norm().value();
      if (amp) { // gradients that are too large are skipped
        engine.backward(engine(ones).to(at::kFloat).sum() * 1e30);
        engine.step();
        EXPECT_EQ(engine.progress().skipped_steps, 1);
        EXPECT_EQ(engine.progress().loss_scale, 32768);
      }
      return norm;
    };
    const double wanted = norm(false);
    EXPECT_GT(wanted, 0);
    EXPECT_NEAR(norm(true) / wanted, 1, 0.01);
  });
}

/// Uses Gloo: NCCL refuses two ranks on one GPU.
TEST(EngineGpu, TwoRanksShareTheGpu) {
  const testing::TemporaryFolder folder;
  testing::run_ranks(
      {.ranks = 2, .backend = distributed::BackendChoice::gloo_on_gpu},
      [&](const distributed::World& world) {
        ASSERT_EQ(world.device_name(), "cuda:0");
        const Curve wanted = testing::reference<TinyGpt>(4);
        for (int stage = 0; stage <= 3; ++stage) {
          SCOPED_TRACE("stage " + std::to_string(stage));
          testing::expect_close(
              testing::trained<TinyGpt>(world, testing::stage(stage), 2),
              wanted,
              1e-4);
          for (const char* device : {"cpu", "nvme"}) {
            if (stage > 0) {
              SCOPED_TRACE(device);
              testing::expect_close(
                  testing::trained<TinyGpt>(
                      world,
                      with_offload(stage, device, folder.path().string()),
                      2),
                  wanted,
                  1e-4);
            }
          }
        }
      });
}

} // namespace
} // namespace cairn::engine_gpu_test
