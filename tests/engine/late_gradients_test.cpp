#include "engine/parity.h"
#include "support/run_ranks.h"

#include <cairn/nn/checkpoint.h>
#include <gtest/gtest.h>

#include <string>

// Gradients that come after their bucket has left: nested checkpoints run
// backward within backward, so that a weight's gradient appears once for every
// level that uses it, and a pass with more levels than the one before surprises
// the reducer.

namespace cairn::late_gradients_test {
namespace {

/// Two layers that every level of a nest of checkpoints uses; every other step
/// the nest is deeper.
template <bool checkpointed>
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
    return head(level(embedding(tokens), increment % 2 == 0 ? 3 : 1));
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

} // namespace
} // namespace cairn::late_gradients_test
