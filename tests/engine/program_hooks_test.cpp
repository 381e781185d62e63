#include "engine/parity.h"
#include "support/run_ranks.h"

#include <cairn/engine/distributed_data_parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <string>
#include <utility>

// libtorch keeps one hook per parameter for gradients that have accumulated. A
// program that sets its own there takes the engine's away; the training must
// not notice, and the program's hook must still be called.

namespace cairn::program_hooks_test {
namespace {

/// Doubles each gradient that it sees, and counts them.
struct Doubling : torch::autograd::PostAccumulateGradHook {
  explicit Doubling(std::shared_ptr<int> calls) : count(std::move(calls)) {}
  void operator()(const at::Tensor& parameter) override {
    const torch::autograd::AutoGradMode no_grad(false);
    parameter.mutable_grad().mul_(2);
    ++*count;
  }
  std::shared_ptr<int> count;
};

enum class When { never, before_the_engine, in_the_first_pass };

/// A net that sets hooks on all its parameters, or computes what they make of
/// it: the gradients of twice the loss, without the loss itself.
template <When when>
struct HookedNet : testing::TinyGpt {
  HookedNet() {
    if (when == When::before_the_engine) {
      set_hooks();
    }
  }
  at::Tensor forward(const at::Tensor& tokens) {
    if (when == When::in_the_first_pass && *calls == 0) {
      set_hooks();
    }
    const at::Tensor scores = testing::TinyGpt::forward(tokens);
    return when == When::never ? 2 * scores - scores.detach() : scores;
  }
  void set_hooks() {
    for (const at::Tensor& parameter : testing::trained_parameters(*this)) {
      torch::autograd::impl::set_post_acc_grad_hooks(
          parameter,
          std::make_unique<Doubling>(calls));
    }
  }
  std::shared_ptr<int> calls = std::make_shared<int>(0);
};

template <When when>
void trains_alike(const distributed::World& world) {
  const testing::Curve wanted =
      testing::reference<HookedNet<When::never>>(2 * world.size());
  for (int number = 0; number <= 3; ++number) {
    SCOPED_TRACE("stage " + std::to_string(number));
    std::shared_ptr<HookedNet<when>> net;
    const testing::Curve got = testing::trained<HookedNet<when>>(
        world,
        testing::stage(number),
        2,
        std::nullopt,
        [&] { return net = testing::fresh<HookedNet<when>>(); });
    expect_close(got, wanted, 1e-5);
    const auto parameters = testing::trained_parameters(*net).size();
    EXPECT_EQ(*net->calls, 2 * testing::steps * static_cast<int>(parameters));
  }
}

TEST(ProgramHooks, SetBeforeTheEngineAreCalledAndChangeNothingElse) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    trains_alike<When::before_the_engine>(world);
  });
}

TEST(ProgramHooks, SetInAPassAreCalledAndChangeNothingElse) {
  for (const int ranks : {1, 2}) {
    testing::run_ranks({.ranks = ranks}, [](const distributed::World& world) {
      trains_alike<When::in_the_first_pass>(world);
    });
  }
}

TEST(ProgramHooks, ArePutBackWhenTheEngineGoes) {
  testing::run_ranks({.ranks = 1}, [](const distributed::World& world) {
    auto net = testing::fresh<HookedNet<When::before_the_engine>>();
    { const DistributedDataParallel ddp(net, world.group()); }
    for (const at::Tensor& parameter : testing::trained_parameters(*net)) {
      EXPECT_NE(
          dynamic_cast<Doubling*>(
              torch::autograd::impl::post_acc_grad_hooks(parameter).get()),
          nullptr);
    }
  });
}

TEST(ProgramHooks, DoNotStopTheAveragesOfAPlainLoop) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    auto net = testing::fresh<HookedNet<When::in_the_first_pass>>();
    DistributedDataParallel ddp(net, world.group());
    auto plain = testing::fresh<testing::TinyGpt>();
    const auto loss_of = [](const at::Tensor& scores, int rank) {
      return testing::token_loss(
          scores,
          testing::tokens_of(0, rank).narrow(1, 1, 8));
    };
    const auto inputs_of = [](int rank) {
      return testing::tokens_of(0, rank).narrow(1, 0, 8);
    };
    loss_of(ddp(inputs_of(world.rank())), world.rank()).backward();
    for (int rank = 0; rank < 2; ++rank) {
      loss_of(plain->forward(inputs_of(rank)), rank).backward();
    }
    const auto got = testing::trained_parameters(*net);
    const auto wanted = testing::trained_parameters(*plain);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(at::allclose(got[i].grad(), wanted[i].grad(), 1e-5, 1e-7))
          << i;
    }
  });
}

} // namespace
} // namespace cairn::program_hooks_test
