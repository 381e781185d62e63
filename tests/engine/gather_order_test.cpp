#include "zero/gather/gather_order.h"
#include "engine/nets.h"
#include "support/run_ranks.h"

#include <cairn/base/error.h>
#include <cairn/engine/gathered_parameters.h>
#include <cairn/engine/initialize.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// Stage 3 gathers what operators use, so ranks have to use the same. Where they
// do not, every rank gets an error that names a rank and a parameter: it
// neither hangs nor computes with another parameter's values.

namespace cairn::gather_order_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Layers of one size, a bucket each, which run in a given order.
struct OrderedStack : testing::TanhStack {
  OrderedStack() : TanhStack(4, 16) {}
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = x;
    for (const int layer : order) {
      y = at::tanh(layers[layer]->as<torch::nn::Linear>()->forward(y));
    }
    return y;
  }
  std::vector<int> order = {0, 1, 2, 3};
};

struct Training {
  std::shared_ptr<OrderedStack> net;
  Engine engine;

  void step() {
    engine.backward(engine(at::ones({2, 16})).square().mean());
    engine.step();
  }
};

Training start(const distributed::World& world) {
  const nlohmann::json config{
      {"train_micro_batch_size_per_gpu", 2},
      {"optimizer", {{"type", "SGD"}, {"params", {{"lr", 0.1}}}}},
      {"zero_optimization",
       {{"stage", 3},
        {"reduce_bucket_size", 300},
        {"stage3_max_live_parameters", 600},
        {"stage3_param_persistence_threshold", 0}}}};
  torch::manual_seed(17);
  auto net = std::make_shared<OrderedStack>();
  return {
      net,
      initialize({.model = net,
                  .config = config.dump(),
                  .world = world,
                  .logger = Logger({.least = LogLevel::error})})
          .engine};
}

/// The error of `body`; empty if there is none.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const CommError& error) {
    return error.what();
  }
  return "";
}

/// Runs two good steps and then `body` on two ranks, in shared memory and over
/// Gloo. `body` has to fail on both with a text that matches.
void expect_error(
    const std::function<void(Training&, int rank)>& body,
    const ::testing::Matcher<const std::string&>& wanted) {
  for (const bool shared_memory : {true, false}) {
    SCOPED_TRACE(shared_memory ? "shared memory" : "Gloo");
    testing::run_ranks(
        {.shared_memory = shared_memory},
        [&](const distributed::World& world) {
          Training training = start(world);
          training.step();
          training.step();
          EXPECT_THAT(error_of([&] { body(training, world.rank()); }), wanted);
        });
  }
}

TEST(GatherOrder, RanksThatTakeOtherBranches) {
  expect_error(
      [](Training& training, int rank) {
        training.net->order =
            rank == 0 ? std::vector<int>{0, 1, 3} : std::vector<int>{0, 2, 3};
        training.step();
        training.step();
      },
      AllOf(
          HasSubstr("rank 1"),
          HasSubstr("layers.1.weight"),
          HasSubstr("layers.2.")));
}

TEST(GatherOrder, OneRankUsesAParameterMore) {
  expect_error(
      [](Training& training, int rank) {
        if (rank == 1) {
          const torch::autograd::AutoGradMode no_grad(false);
          const auto& last = training.net->layers[3];
          last->as<torch::nn::Linear>()->weight.norm();
        }
        training.step();
        training.step();
      },
      AllOf(HasSubstr("rank 1"), HasSubstr("layers.3.weight")));
}

TEST(GatherOrder, OneRankMakesAParameterWhole) {
  expect_error(
      [](Training& training, int rank) {
        std::optional<GatheredParameters> whole;
        if (rank == 1) {
          whole.emplace(
              training.engine,
              std::vector<std::string>{"layers.2.weight"});
        }
        training.step();
      },
      AllOf(HasSubstr("rank 1"), HasSubstr("layers.2.weight")));
}

TEST(GatherOrder, OneRankIsAlreadyDone) {
  testing::run_ranks({}, [&](const distributed::World& world) {
    Training training = start(world);
    training.step();
    if (world.rank() == 1) {
      EXPECT_THAT(
          error_of([&] { training.step(); }),
          AllOf(HasSubstr("rank 0"), HasSubstr("layers.0.weight")));
    }
  });
}

// What the ranks compare at each update, for libraries that move what they are
// given: two ranks here speak of other parameters without a gather that fails.
TEST(GatherOrder, IsComparedAtEachUpdate) {
  testing::run_ranks({}, [](const distributed::World& world) {
    const auto name = [](int parameter) {
      return "layers." + std::to_string(parameter);
    };
    zero::GatherOrder order;
    const auto compare = [&] {
      order.send(world.group(), at::kCPU);
      order.compare(name);
    };
    order.note(0, 4);
    order.note(1, world.rank());
    compare(); // the same buckets, whoever asked for them
    order.note(3, 7);
    order.note(world.rank(), 5 + world.rank());
    EXPECT_THAT(
        error_of(compare),
        HasSubstr("rank 1 used layers.6 where rank 0 used layers.5"));
  });
  testing::run_ranks({}, [](const distributed::World& world) {
    zero::GatherOrder order;
    order.note(2, 2);
    if (world.rank() == 1) {
      order.note(0, 0);
    }
    EXPECT_THAT(
        error_of([&] {
          order.send(world.group(), at::kCPU);
          order.compare([](int) { return "head.weight"; });
        }),
        HasSubstr("rank 1 used head.weight where rank 0 used nothing more"));
  });
}

} // namespace
} // namespace cairn::gather_order_test
