#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <cairn/engine/initialize.h>
#include <cairn/models/resnet18.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <string>

// The state that BatchNorm keeps besides its parameters.

namespace cairn::buffers_test {
namespace {

struct TrainedNet {
  models::ResNet18 net;
  at::Tensor mean; ///< the module's own, taken before the engine saw it
  at::Tensor count;
  Engine engine;

  void pass(double factor) {
    const at::Tensor pictures =
        at::sin(at::arange(2 * 3 * 16 * 16, at::kFloat) * factor);
    engine.backward(
        engine(pictures.view({2, 3, 16, 16})).to(at::kFloat).mean());
    engine.step();
  }
};

TrainedNet start(const distributed::World& world, int stage, bool bf16) {
  torch::manual_seed(3);
  models::ResNet18 net(10, 4);
  const at::Tensor mean = net->named_buffers()["bn1.running_mean"];
  const at::Tensor count = net->named_buffers()["bn1.num_batches_tracked"];
  Engine engine = initialize({.model = net,
                              .config = R"({"train_micro_batch_size_per_gpu": 2,
                      "optimizer": {"type": "Adam"}, "bf16": {"enabled": )" +
                                  std::string(bf16 ? "true" : "false") +
                                  R"(}, "zero_optimization": {"stage": )" +
                                  std::to_string(stage) + "}}",
                              .world = world,
                              .logger = Logger({.least = LogLevel::error})})
                      .engine;
  return {net, mean, count, engine};
}

TEST(Buffers, StayTheModulesOwnThroughCheckpoints) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    for (const int stage : {0, 3}) {
      for (const bool bf16 : {false, true}) {
        SCOPED_TRACE(::testing::Message() << stage << ", bf16 " << bf16);
        TrainedNet run = start(world, stage, bf16);
        run.pass(0.01);
        run.pass(0.02);
        EXPECT_TRUE(
            run.mean.is_same(run.net->named_buffers()["bn1.running_mean"]));
        EXPECT_TRUE(
            run.mean.is_same(run.net->named_buffers()["bn1.running_mean"]));
        EXPECT_GT(run.mean.abs().max().item<double>(), 0);
        EXPECT_EQ(run.count.scalar_type(), at::kLong)
            << "integers are not cast";
        EXPECT_EQ(run.count.item<std::int64_t>(), 2);
        const auto place = folder.path() / std::to_string(stage + 10 * bf16);
        run.engine.save_checkpoint(place);
        run.engine.finish_checkpoint();

        TrainedNet again = start(world, stage, bf16);
        again.engine.load_checkpoint(place);
        EXPECT_TRUE(
            again.mean.is_same(again.net->named_buffers()["bn1.running_mean"]));
        EXPECT_EQ(again.count.item<std::int64_t>(), 2);
        EXPECT_TRUE(at::equal(again.mean, run.mean));
        // Evaluation uses them.
        run.engine.eval();
        again.engine.eval();
        const torch::NoGradGuard no_grad;
        const at::Tensor pictures = at::ones({1, 3, 16, 16});
        EXPECT_TRUE(at::equal(run.engine(pictures), again.engine(pictures)));
      }
    }
  });
}

TEST(Buffers, AreThoseOfPlainLibtorch) {
  testing::run_ranks({.ranks = 1}, [&](const distributed::World& world) {
    TrainedNet run = start(world, 1, false);
    torch::manual_seed(3);
    models::ResNet18 plain(10, 4);
    const at::Tensor pictures = at::rand({2, 3, 16, 16});
    run.engine(pictures);
    plain(pictures);
    for (const auto& buffer : plain->named_buffers()) {
      EXPECT_TRUE(
          at::equal(run.net->named_buffers()[buffer.key()], buffer.value()))
          << buffer.key();
    }
  });
}

} // namespace
} // namespace cairn::buffers_test
