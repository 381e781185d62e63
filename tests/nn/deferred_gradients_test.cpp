#include "nn/internal/deferred_gradients.h"
#include "nn/linear/linear_product.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <cairn/nn/checkpoint.h>
#include <cairn/nn/tensor_parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/utils.h>

#include <functional>
#include <memory>
#include <vector>

// Gradients of weights are the same at once and put off.

namespace cairn::nn::deferred_gradients_test {
namespace {

using at::Tensor;
using Forward = std::function<Tensor(const std::vector<Tensor>&)>;

struct Gradients {
  std::vector<Tensor> after_backward;
  std::vector<Tensor> at_the_end;
};

Tensor numbers(at::IntArrayRef sizes, double step) {
  return at::sin(at::arange(c10::multiply_integers(sizes), at::kFloat) * step)
      .view(sizes);
}

Gradients gradients_of(
    const std::vector<Tensor>& given,
    const Forward& forward,
    const std::shared_ptr<DeferredGradients>& later) {
  std::vector<Tensor> inputs;
  for (const Tensor& each : given) {
    inputs.push_back(each.detach().clone().requires_grad_());
  }
  Tensor loss;
  {
    const DeferWeightGradients scope(later);
    loss = forward(inputs).square().sum();
  }
  loss.backward();
  Gradients result;
  const auto read = [&](std::vector<Tensor>& into) {
    for (const Tensor& each : inputs) {
      into.push_back(each.grad().defined() ? each.grad().clone() : Tensor());
    }
  };
  read(result.after_backward);
  if (later) {
    later->run();
    EXPECT_TRUE(later->empty());
  }
  read(result.at_the_end);
  return result;
}

/// `put_off`: the inputs that get their gradients later.
void expect_same(
    const std::vector<Tensor>& inputs,
    const std::vector<bool>& put_off,
    const Forward& forward,
    double tolerance = 1e-6) {
  const Gradients wanted = gradients_of(inputs, forward, nullptr);
  const Gradients got =
      gradients_of(inputs, forward, std::make_shared<DeferredGradients>());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(got.after_backward[i].defined(), !put_off[i]) << i;
    ASSERT_TRUE(got.at_the_end[i].defined()) << i;
    EXPECT_TRUE(at::allclose(
        got.at_the_end[i],
        wanted.at_the_end[i],
        tolerance,
        tolerance))
        << i;
  }
}

std::vector<Tensor> one_layer() {
  return {numbers({2, 5, 4}, 0.7), numbers({3, 4}, 0.3), numbers({3}, 0.9)};
}

/// Runs in its own process, since libtorch starts threads and other tests fork.
void alone(const std::function<void()>& body) {
  testing::run_ranks({.ranks = 1}, [&](const distributed::World&) { body(); });
}

TEST(DeferredGradients, WaitForTheirWeightsAlone) {
  alone([] {
    const auto forward = [](const std::vector<Tensor>& x) {
      return nn::linear(x[0], x[1], x[2]);
    };
    expect_same(one_layer(), {false, true, false}, forward);
    // The second product has no parameter, but a transposed one.
    expect_same(
        one_layer(),
        {false, false, false},
        [&](const std::vector<Tensor>& x) {
          return at::tanh(nn::linear(forward(x), x[1].t(), Tensor()));
        });
  });
}

TEST(DeferredGradients, AreComputedAtOnceForWhatIsNoParameter) {
  alone([] {
    expect_same(
        one_layer(),
        {false, false, false},
        [](const std::vector<Tensor>& x) {
          return nn::linear(x[0], x[1] * 2, x[2]);
        });
  });
}

TEST(DeferredGradients, FindTheirWayThroughACast) {
  alone([] {
    const auto forward = [](const std::vector<Tensor>& x) {
      at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
      at::autocast::set_autocast_enabled(at::kCPU, true);
      const Tensor y = nn::linear(x[0], x[1], x[2]);
      at::autocast::set_autocast_enabled(at::kCPU, false);
      at::autocast::clear_cache();
      EXPECT_EQ(y.scalar_type(), at::kBFloat16);
      return y.to(at::kFloat);
    };
    expect_same(one_layer(), {false, true, false}, forward, 2e-2);
  });
}

TEST(DeferredGradients, AreThoseOfTheSecondForwardUnderACheckpoint) {
  alone([] {
    expect_same(
        one_layer(),
        {false, true, false},
        [](const std::vector<Tensor>& x) {
          return checkpoint(
              CheckpointOptions{},
              [&x](const Tensor& input) {
                return nn::linear(input, x[1], x[2]);
              },
              x[0]);
        });
  });
}

TEST(DeferredGradients, CallTheHooksOfParametersWhenTheyAreThere) {
  alone([] {
    struct Count : torch::autograd::PostAccumulateGradHook {
      explicit Count(int& the_calls) : calls(the_calls) {}
      void operator()(const Tensor& parameter) override {
        // Backward also tells of parameters that it has no gradient for.
        calls += parameter.grad().defined() ? 1 : 0;
      }
      int& calls;
    };
    int calls = 0;
    const Tensor x = one_layer()[0];
    const Tensor weight = one_layer()[1].clone().requires_grad_();
    torch::autograd::impl::set_post_acc_grad_hooks(
        weight,
        std::make_unique<Count>(calls));
    const auto later = std::make_shared<DeferredGradients>();
    Tensor loss;
    {
      const DeferWeightGradients scope(later);
      loss = nn::linear(x, weight, Tensor()).sum();
    }
    EXPECT_FALSE(DeferWeightGradients::current());
    loss.backward();
    EXPECT_EQ(calls, 0);
    later->run();
    EXPECT_EQ(calls, 1);
    later->run();
    EXPECT_EQ(calls, 1);
  });
}

TEST(DeferredGradients, OfSharedLayersAreThoseOfTheirPart) {
  testing::run_ranks(2, [](const ProcessGroup& group) {
    for (const TokenSplit tokens :
         {TokenSplit::none, TokenSplit::split, TokenSplit::overlapped}) {
      const bool split = tokens != TokenSplit::none;
      const std::vector<Tensor> inputs{
          numbers({2, split ? 3 : 6, 4}, 0.7 + group.rank() * split),
          numbers({3, 4}, 0.3 + group.rank()),
          numbers({3, 4}, 0.4 + group.rank()),
          numbers({4, 3}, 0.5 + group.rank())};
      expect_same(
          inputs,
          {false, true, true, true},
          [&](const std::vector<Tensor>& x) {
            const std::vector<Tensor> wide = column_linear(
                x[0],
                {x[1], x[2]},
                {Tensor(), Tensor()},
                group,
                tokens);
            return row_linear(wide[0] * wide[1], x[3], {}, group, tokens);
          });
    }
  });
}

} // namespace
} // namespace cairn::nn::deferred_gradients_test
