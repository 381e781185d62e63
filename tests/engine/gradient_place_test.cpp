#include "kernels/internal/gradient_place.h"
#include "engine/parity.h"
#include "nn/linear/linear_product.h"
#include "nn/linear/product.h"
#include "nn/loss/word_rows.h"
#include "support/run_ranks.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <cairn/engine/initialize.h>
#include <cairn/nn/checkpoint.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

// Our own operators write gradients where they are wanted: the same as
// libtorch's, however often and wherever a weight is used.

namespace cairn::gradient_place_test {
namespace {

constexpr std::int64_t words = 64;
constexpr std::int64_t width = 12;
constexpr const char* config = R"({"train_micro_batch_size_per_gpu": 1,
"optimizer": {"type": "SGD", "params": {"lr": 0.1}}})";

/// A net with a table that is looked up twice, once within a checkpoint, and is
/// the weight of two products; and a weight of its own in between.
template <bool ours>
struct TiedNet : torch::nn::Module {
  TiedNet() {
    table = register_parameter("table", at::randn({words, width}) * 0.1);
    middle = register_parameter("middle", at::randn({width, width}) * 0.3);
  }
  static at::Tensor rows(const at::Tensor& weight, const at::Tensor& ids) {
    return ours ? nn::word_rows(weight, ids) : at::embedding(weight, ids);
  }
  static at::Tensor product(const at::Tensor& x, const at::Tensor& weight) {
    return ours ? nn::linear(x, weight, {}) : at::linear(x, weight);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor x = product(rows(table, tokens), middle);
    const auto again = [this, tokens](const at::Tensor& y) {
      return product(y, middle) + rows(table, tokens);
    };
    const at::Tensor y = ours ? nn::checkpoint(again, x) : again(x);
    return product(y, table) + product(x.tanh(), table);
  }
  at::Tensor table, middle;
};

void like_libtorch(int ranks, int accumulation) {
  testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
    const testing::Curve wanted =
        testing::reference<TiedNet<false>>(ranks * accumulation);
    for (int number = 0; number <= 3; ++number) {
      SCOPED_TRACE("stage " + std::to_string(number));
      expect_close(
          testing::trained<TiedNet<true>>(
              world,
              testing::stage(number),
              accumulation),
          wanted,
          1e-5);
    }
  });
}

TEST(GradientPlace, GivesTheSameGradients) {
  like_libtorch(1, 1);
}
TEST(GradientPlace, GivesTheSameGradientsOverSeveralPasses) {
  like_libtorch(1, 3);
}
TEST(GradientPlace, GivesTheSameGradientsOnTwoRanks) {
  like_libtorch(2, 2);
}

struct OneWeight : torch::nn::Module {
  OneWeight() {
    weight = register_parameter("weight", at::ones({words, width}));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = x.sum() * weight;
    y.register_hook([this](const at::Tensor&) { in_backward(); });
    return y.sum();
  }
  at::Tensor weight;
  std::function<void()> in_backward;
};

TEST(GradientPlace, IsLentOnceInAPassAndOnlyThen) {
  testing::run_ranks({.ranks = 1}, [](const distributed::World& world) {
    const auto net = std::make_shared<OneWeight>();
    auto engine =
        initialize({.model = net, .config = config, .world = world}).engine;
    kernels::GradientPlace* const place = kernels::gradient_place(net->weight);
    ASSERT_NE(place, nullptr);
    EXPECT_FALSE(place->take().defined());
    EXPECT_FALSE(place->add_rows(at::zeros({1}, at::kLong), at::ones({1, 12})));
    at::Tensor first;
    at::Tensor second;
    bool adds_before = true;
    bool adds_after = false;
    const auto add = [&] {
      return place->add_rows(at::full({2}, 7, at::kLong), at::ones({2, width}));
    };
    net->in_backward = [&] {
      adds_before = add();
      first = place->take();
      second = place->take();
      adds_after = add();
    };
    engine.backward(engine(at::ones({6})));
    EXPECT_FALSE(adds_before);
    ASSERT_TRUE(first.defined());
    EXPECT_FALSE(second.defined());
    EXPECT_TRUE(adds_after);
    // The gradient came in its own memory (6 everywhere), then the rows.
    EXPECT_EQ(first[0][0].item<float>(), 6);
    EXPECT_EQ(first[7][width - 1].item<float>(), 8);
    EXPECT_FALSE(place->take().defined());
  });
}

TEST(GradientPlace, AsASumIsAddedTo) {
  testing::run_ranks({.ranks = 1}, [](const distributed::World& world) {
    const auto net = std::make_shared<OneWeight>();
    auto engine =
        initialize({.model = net, .config = config, .world = world}).engine;
    kernels::GradientPlace* const place = kernels::gradient_place(net->weight);
    EXPECT_FALSE(place->take_sum().memory.defined());
    kernels::GradientPlace::Sum first;
    net->in_backward = [&] {
      first = place->take_sum();
      EXPECT_FALSE(place->take_sum().memory.defined()) << "lent already";
      first.memory.fill_(5);
      place->arrived();
      EXPECT_FALSE(place->take_sum().memory.defined()) << "nothing is to come";
    };
    engine.backward(engine(at::ones({6})));
    EXPECT_FALSE(first.add);
    EXPECT_EQ(first.memory[0][0].item<float>(), 11); // and autograd's own
    net->weight.register_hook([](const at::Tensor&) {});
    EXPECT_EQ(kernels::gradient_place(net->weight), nullptr);
  });
}

TEST(GradientPlace, IsWhereAProductOfOursGoes) {
  testing::run_ranks({.ranks = 1}, [](const distributed::World& world) {
    struct Net : torch::nn::Module {
      Net() {
        weight = register_parameter("weight", at::ones({8, 8}));
        scale = register_parameter("scale", at::ones({8}));
      }
      at::Tensor forward(const at::Tensor& x) {
        return (nn::linear(x, weight, {}) * scale).sum();
      }
      at::Tensor weight, scale;
    };
    const auto net = std::make_shared<Net>();
    auto engine =
        initialize({.model = net, .config = config, .world = world}).engine;
    struct Seen : torch::autograd::FunctionPreHook {
      explicit Seen(bool& flag) : seen(flag) {}
      torch::autograd::variable_list operator()(
          const torch::autograd::variable_list& gradients) override {
        seen |= gradients[0].defined();
        return gradients;
      }
      bool& seen;
    };
    bool by_autograd = false;
    const auto node = torch::autograd::impl::grad_accumulator(net->weight);
    node->add_pre_hook(std::make_unique<Seen>(by_autograd));
    for (int pass = 0; pass < 2; ++pass) {
      engine.backward(engine(at::ones({2, 8})));
      engine.step();
      EXPECT_FALSE(by_autograd) << "it was written where it rests";
    }
    EXPECT_LT(net->weight[0][0].item<float>(), 1) << "and it arrived";
  });
}

} // namespace
} // namespace cairn::gradient_place_test
