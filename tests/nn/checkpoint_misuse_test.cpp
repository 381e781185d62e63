// Mistakes must be reported, and leave the program as it was.

#include <cairn/nn/checkpoint.h>

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>

namespace cairn::nn::checkpoint_misuse_test {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

Tensor leaf() {
  return at::randn({4}).requires_grad_(true);
}

Tensor sine(const Tensor& x) {
  return x.sin();
}

TEST(CheckpointMisuse, InputWrittenIntoAfterwards) {
  const Tensor x = leaf();
  Tensor h = x * 2;
  const Tensor y = checkpoint(sine, h);
  h.add_(1);
  EXPECT_THAT(
      message_of([&] { y.sum().backward(); }),
      HasSubstr("modified by an inplace operation"));
}

TEST(CheckpointMisuse, InputWrittenIntoByTheFunction) {
  const Tensor h = leaf() * 2;
  EXPECT_THAT(
      message_of([&] {
        checkpoint(
            [](double, const Tensor& a) { return a.mul_(2).sin(); },
            1.0,
            h);
      }),
      HasSubstr("changed its tensor input 0 in place; let it work on a clone"));
}

struct Own : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(CheckpointMisuse, ErrorsOfTheFunction) {
  const Tensor x = leaf();
  EXPECT_THROW(
      checkpoint([](const Tensor&) -> Tensor { throw Own("at once"); }, x),
      Own);
  EXPECT_TRUE(at::GradMode::is_enabled());

  int calls = 0;
  const Tensor y = checkpoint(
      [&](const Tensor& a) {
        at::rand({3});
        if (++calls == 2) {
          throw Own("in backward");
        }
        return a.sin();
      },
      x);
  const auto generator = at::globalContext().defaultGenerator(at::kCPU);
  const Tensor before = generator.get_state();
  EXPECT_THROW(y.sum().backward(), Own);
  EXPECT_TRUE(at::equal(generator.get_state(), before));
  EXPECT_TRUE(at::GradMode::is_enabled());
  // It is still there for another try.
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), x.detach().cos()));
}

TEST(CheckpointMisuse, ErrorsFromDeepInside) {
  const Tensor x = leaf();
  int calls = 0;
  const auto inner = [&](const Tensor& a) {
    if (++calls == 3) {
      throw Own("the third time");
    }
    return a.sin();
  };
  const Tensor y =
      checkpoint([&](const Tensor& a) { return checkpoint(inner, a); }, x);
  EXPECT_THROW(y.sum().backward(), Own);
}

TEST(CheckpointMisuse, OtherOutputsInBackward) {
  const Tensor x = leaf();
  int calls = 0;
  const Tensor y = checkpoint(
      [&](const Tensor& a) { return a.slice(0, 0, ++calls).exp(); },
      x);
  const std::string message = message_of([&] { y.sum().backward(); });
  EXPECT_THAT(message, HasSubstr("other outputs in backward than in forward"));
  EXPECT_THAT(message, HasSubstr("Float [2]; then Float [1]"));

  const std::vector<Tensor> many = checkpoint(
      [&](const Tensor& a) {
        std::vector<Tensor> all;
        for (int i = 0; i < calls; ++i) {
          all.push_back(a.exp());
        }
        ++calls;
        return all;
      },
      x);
  EXPECT_THAT(
      message_of([&] { many[0].sum().backward(); }),
      HasSubstr("other outputs"));
}

TEST(CheckpointMisuse, BackwardTwice) {
  const Tensor x = leaf();
  const Tensor y = checkpoint(sine, x);
  y.sum().backward();
  EXPECT_THAT(
      message_of([&] { y.sum().backward(); }),
      HasSubstr("a second time through an activation checkpoint"));
}

TEST(CheckpointMisuse, SecondDerivatives) {
  const Tensor x = leaf();
  const Tensor y = checkpoint(sine, x);
  EXPECT_THAT(
      message_of([&] { y.sum().backward({}, true, /*create_graph=*/true); }),
      HasSubstr("has no second derivatives"));
}

TEST(CheckpointMisuse, GradientsOfAList) {
  const Tensor x = leaf();
  const Tensor y = checkpoint(sine, x);
  EXPECT_THAT(
      message_of([&] { torch::autograd::grad({y.sum()}, {x}); }),
      HasSubstr("needs a plain backward()"));
}

} // namespace
} // namespace cairn::nn::checkpoint_misuse_test
