#include "engine/parity.h"
#include "support/error_text.h"
#include "support/run_ranks.h"

#include <cairn/base/error.h>
#include <cairn/nn/checkpoint.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

// Gradients that come after their bucket has left: nested checkpoints run
// backward within backward, so that a weight's gradient appears once for every
// level that uses it, and a pass with more levels than the one before surprises
// the reducer.

namespace cairn::late_gradients_test {
namespace {

/// How deep the nest of checkpoints is: in every other step deeper, or always.
enum class Nest { changes, stays };

/// Two layers that every level of a nest of checkpoints uses.
template <bool checkpointed, Nest nest = Nest::changes>
struct NestedMlp : torch::nn::Module {
  NestedMlp() {
    embedding = register_module("embedding", torch::nn::Embedding(64, 12));
    down = register_module("down", torch::nn::Linear(12, 12));
    beside = register_module("beside", torch::nn::Linear(12, 12));
    head = register_module("head", torch::nn::Linear(12, 64));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    // tokens_of() counts up by more at every step.
    const auto increment = (tokens[0][1] - tokens[0][0]).item<std::int64_t>();
    const bool deep = nest == Nest::stays || increment % 2 == 0;
    return head(level(embedding(tokens), deep ? 3 : 1));
  }
  at::Tensor level(const at::Tensor& x, int depth) {
    if (depth == 0) {
      return x;
    }
    const auto inner = [this, depth](const at::Tensor& y) {
      return level(at::tanh(down(y)), depth - 1) + beside(y);
    };
    if constexpr (checkpointed) {
      return nn::checkpoint(inner, x);
    } else {
      return inner(x);
    }
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear down{nullptr}, beside{nullptr}, head{nullptr};
};

/// A net that uses one of its layers in every other step, the first among them.
struct NowAndThen : torch::nn::Module {
  NowAndThen() {
    embedding = register_module("embedding", torch::nn::Embedding(64, 12));
    some = register_module("some", torch::nn::Linear(12, 12));
    head = register_module("head", torch::nn::Linear(12, 64));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor x = embedding(tokens);
    const auto increment = (tokens[0][1] - tokens[0][0]).item<std::int64_t>();
    return head(increment % 2 == 0 ? x : at::tanh(some(x)));
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear some{nullptr}, head{nullptr};
};

void like_plain_libtorch(int ranks, int accumulation) {
  testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
    const testing::Curve wanted =
        testing::reference<NestedMlp<false>>(ranks * accumulation);
    for (int number = 0; number <= 3; ++number) {
      SCOPED_TRACE("stage " + std::to_string(number));
      expect_close(
          testing::trained<NestedMlp<true>>(
              world,
              testing::stage(number),
              accumulation),
          wanted,
          1e-5);
    }
  });
}

TEST(LateGradients, OnOneRank) {
  like_plain_libtorch(1, 2);
}
TEST(LateGradients, OnTwoRanks) {
  like_plain_libtorch(2, 1);
}
TEST(LateGradients, OnTwoRanksThatAccumulate) {
  like_plain_libtorch(2, 2);
}
TEST(LateGradients, OnThreeRanks) {
  like_plain_libtorch(3, 1);
}

template <typename Net>
testing::Curve with_promise(
    const distributed::World& world,
    int number,
    int accumulation) {
  return testing::trained<Net>(
      world,
      testing::stage(number),
      accumulation,
      std::nullopt,
      testing::fresh<Net>,
      /*same_use_in_all_passes=*/true);
}

// In the first pass nobody knows yet how often gradients appear.
TEST(LateGradients, OfTheFirstPassCountWhereAllPassesAreAlike) {
  for (const int accumulation : {1, 2}) {
    testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
      const testing::Curve wanted =
          testing::reference<NestedMlp<false, Nest::stays>>(2 * accumulation);
      for (int number = 0; number <= 3; ++number) {
        SCOPED_TRACE("stage " + std::to_string(number));
        testing::expect_close(
            with_promise<NestedMlp<true, Nest::stays>>(
                world,
                number,
                accumulation),
            wanted,
            1e-5);
      }
    });
  }
}

TEST(LateGradients, AreAnErrorWhereAllPassesShouldBeAlike) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    const std::string error = error_text<UsageError>(
        [&] { with_promise<NestedMlp<true>>(world, 1, 1); });
    EXPECT_THAT(
        error,
        ::testing::HasSubstr("though passes were said to use all parameters "
                             "equally often; leave .same_use_in_all_passes "
                             "out"));
  });
}

// A parameter that some passes leave out sends its bucket at their end.
TEST(LateGradients, MayBeMissingNowAndThenWhereAllPassesAreAlike) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    const testing::Curve wanted = testing::reference<NowAndThen>(2);
    for (int number = 0; number <= 2; ++number) {
      SCOPED_TRACE("stage " + std::to_string(number));
      testing::expect_close(
          with_promise<NowAndThen>(world, number, 1),
          wanted,
          1e-5);
    }
  });
}

} // namespace
} // namespace cairn::late_gradients_test
