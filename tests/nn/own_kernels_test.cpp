#include "kernels/internal/cpu/matrix_product.h"
#include "nn/linear/gelu.h"
#include "nn/linear/gelu_mlp.h"
#include "nn/linear/linear_product.h"
#include "nn/linear/product.h"
#include "nn/linear/swiglu.h"
#include "nn/linear/swiglu_mlp.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <cairn/nn/attention.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <functional>
#include <utility>
#include <vector>

// Our own kernels beside libtorch's operators: the same values and gradients. A
// build without our kernels compares libtorch's with themselves.

namespace cairn::nn::own_kernels_test {
namespace {

using at::Tensor;

void expect_close(
    const Tensor& ours,
    const Tensor& theirs,
    double precision = 1e-5) {
  ASSERT_EQ(ours.sizes(), theirs.sizes());
  const double scale = theirs.numel() > 0
      ? std::max(1.0, theirs.abs().max().item<double>())
      : 1.0;
  EXPECT_TRUE(at::allclose(ours, theirs, precision, precision / 5 * scale))
      << "largest difference " << (ours - theirs).abs().max().item<double>();
}

/// Compares results and the gradients of the inputs.
void expect_same(
    const std::vector<Tensor>& inputs,
    const std::function<Tensor(const std::vector<Tensor>&)>& ours,
    const std::function<Tensor(const std::vector<Tensor>&)>& theirs,
    double precision = 1e-5) {
  std::vector<Tensor> results;
  std::vector<std::vector<Tensor>> gradients;
  for (const auto& function : {ours, theirs}) {
    std::vector<Tensor> own;
    for (const Tensor& input : inputs) {
      own.push_back(
          input.defined() ? input.detach().clone().requires_grad_() : input);
    }
    const Tensor result = function(own);
    // Numbers that 16 bits hold exactly, and that are the same every time: a
    // sine's last bit may depend on where its argument lies in memory.
    const Tensor weights =
        ((at::arange(result.numel(), at::kFloat) * 37).remainder(129) - 64) /
        64;
    (result * weights.view(result.sizes())).sum().backward();
    results.push_back(result.detach());
    gradients.emplace_back();
    for (const Tensor& input : own) {
      gradients.back().push_back(input.defined() ? input.grad() : Tensor());
    }
  }
  expect_close(results[0], results[1], precision);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) {
      expect_close(gradients[0][i], gradients[1][i], precision);
    }
  }
}

TEST(Product, IsLibtorchs) {
  torch::manual_seed(1);
  for (const auto& [rows, columns, depth] :
       std::vector<std::tuple<int, int, int>>{
           {1, 1, 1},
           {8, 12, 4},
           {7, 11, 3},
           {9, 13, 5},
           {130, 770, 390},
           {257, 100, 800},
           {16, 20, 600},
           {24, 16, 1100},
           {3, 2000, 17},
           {0, 5, 4},
           {5, 4, 0}}) {
    const Tensor left = at::randn({rows, depth});
    const Tensor right = at::randn({depth, columns});
    const Tensor bias = at::randn({columns});
    SCOPED_TRACE(
        ::testing::Message() << rows << " " << columns << " " << depth);
    expect_close(product(left, right), at::mm(left, right));
    expect_close(product(left, right, bias), at::addmm(bias, left, right));
    // Inputs are transposed in memory, and parts of larger matrices.
    expect_close(
        product(left.t().contiguous().t(), right.t().contiguous().t(), bias),
        at::addmm(bias, left, right));
    const Tensor wide = at::randn({rows, 2 * depth + 3});
    expect_close(
        product(wide.slice(1, 1, 1 + 2 * depth, 2), right),
        at::mm(wide.slice(1, 1, 1 + 2 * depth, 2), right));
    const Tensor into = at::randn({rows, columns + 4});
    Tensor expected = into.clone();
    product_into(into.narrow(1, 2, columns), left, right, Into::add);
    expected.narrow(1, 2, columns).add_(at::mm(left, right));
    expect_close(into, expected);
    product_into(into.narrow(1, 2, columns), left, right, Into::overwrite);
    expected.narrow(1, 2, columns).copy_(at::mm(left, right));
    expect_close(into, expected);
  }
}

TEST(Product, IsTheSameWithAnyNumberOfThreads) {
  torch::manual_seed(2);
  const int threads = at::get_num_threads();
  const Tensor left = at::randn({100, 500});
  const Tensor right = at::randn({500, 333});
  at::set_num_threads(1);
  const Tensor alone = product(left, right);
  at::set_num_threads(3);
  const Tensor shared = product(left, right);
  at::set_num_threads(threads);
  if constexpr (kernels::cpu::outruns_libtorch) {
    EXPECT_TRUE(at::equal(alone, shared));
  } else {
    expect_close(alone, shared);
  }
}

TEST(BatchProduct, IsLibtorchs) {
  torch::manual_seed(4);
  for (const auto& [count, rows, columns, depth] :
       std::vector<std::tuple<int, int, int, int>>{
           {1, 130, 77, 39},
           {3, 7, 11, 5},
           {4, 64, 48, 100},
           {40, 9, 13, 8},
           {3, 130, 70, 90},
           {2, 0, 5, 4},
           {0, 5, 4, 3}}) {
    SCOPED_TRACE(
        ::testing::Message()
        << count << " " << rows << " " << columns << " " << depth);
    const Tensor left = at::randn({count, rows, depth});
    const Tensor right = at::randn({count, depth, columns});
    const Tensor bias = at::randn({count, columns});
    expect_close(product(left, right), at::bmm(left, right));
    // Inputs are transposed in memory, and the same matrix many times.
    const Tensor across = right.transpose(1, 2).contiguous().transpose(1, 2);
    expect_close(
        product(left, across, bias),
        at::baddbmm(bias.unsqueeze(1), left, right));
    const Tensor same = at::randn({rows, depth}).expand({count, rows, depth});
    expect_close(product(same, right), at::bmm(same, right));
    const Tensor into = at::randn({count, rows, columns});
    product_into(into, left, across, Into::overwrite);
    expect_close(into, at::bmm(left, right));
    product_into(into, left, right, Into::add);
    expect_close(into, 2 * at::bmm(left, right));
  }
  EXPECT_THROW(product(at::ones({2, 3, 4}), at::ones({3, 4, 5})), c10::Error);
}

TEST(BatchLinear, IsLibtorchs) {
  torch::manual_seed(5);
  for (const bool biased : {false, true}) {
    expect_same(
        {at::randn({6, 20, 16}),
         at::randn({6, 24, 16}),
         biased ? at::randn({6, 24}) : Tensor()},
        [](const std::vector<Tensor>& x) { return linear(x[0], x[1], x[2]); },
        [](const std::vector<Tensor>& x) {
          const Tensor product = at::bmm(x[0], x[1].transpose(1, 2));
          return x[2].defined() ? product + x[2].unsqueeze(1) : product;
        });
  }
}

TEST(Product, OfWhatDoesNotFitIsAnError) {
  const Tensor left = at::ones({16, 24});
  EXPECT_THROW(product(left, at::ones({25, 12})), c10::Error);
  EXPECT_THROW(product(left, at::ones({24, 12}), at::ones({13})), c10::Error);
  EXPECT_THROW(nn::linear(left, at::ones({12, 25}), Tensor()), c10::Error);
  EXPECT_THROW(
      product_into(at::ones({16, 13}), left, at::ones({24, 12}), Into::add),
      c10::Error);
  EXPECT_THROW(
      attend(
          at::ones({2, 6, 4, 8}),
          at::ones({2, 5, 4, 9}),
          at::ones({2, 5, 4, 9}),
          {}),
      c10::Error);
}

TEST(LinearProduct, IsLibtorchs) {
  torch::manual_seed(3);
  for (const bool biased : {true, false}) {
    expect_same(
        {at::randn({2, 5, 24}),
         at::randn({36, 24}),
         biased ? at::randn({36}) : Tensor()},
        [](const auto& in) { return linear(in[0], in[1], in[2]); },
        [](const auto& in) {
          return at::linear(
              in[0],
              in[1],
              in[2].defined() ? std::optional(in[2]) : std::nullopt);
        });
  }
}

TEST(GeluMlp, IsLibtorchs) {
  torch::manual_seed(3);
  const auto optional = [](const Tensor& bias) {
    return bias.defined() ? std::optional(bias) : std::nullopt;
  };
  for (const auto kind : {GeluKind::exact, GeluKind::tanh}) {
    for (const int biases : {0, 1, 2, 3}) {
      expect_same(
          {at::randn({2, 5, 24}),
           at::randn({36, 24}),
           (biases & 1) != 0 ? at::randn({36}) : Tensor(),
           at::randn({24, 36}),
           (biases & 2) != 0 ? at::randn({24}) : Tensor(),
           biases != 3 ? at::randn({2, 5, 24}) : Tensor()},
          [&](const auto& in) {
            return gelu_mlp(in[0], in[5], {in[1], in[2]}, {in[3], in[4]}, kind);
          },
          [&](const auto& in) {
            const Tensor wide = at::gelu(
                at::linear(in[0], in[1], optional(in[2])),
                kind == GeluKind::exact ? "none" : "tanh");
            const Tensor result = at::linear(wide, in[3], optional(in[4]));
            return in[5].defined() ? in[5] + result : result;
          });
    }
  }
}

TEST(SwiGlu, IsLibtorchs) {
  torch::manual_seed(5);
  expect_same(
      {at::randn({3, 7}) * 3, at::randn({3, 7})},
      [](const auto& in) { return swiglu(in[0], in[1]); },
      [](const auto& in) { return at::silu(in[0]) * in[1]; });
}

TEST(SwiGluMlp, IsLibtorchs) {
  torch::manual_seed(6);
  for (const bool adds : {true, false}) {
    expect_same(
        {at::randn({2, 5, 24}),
         at::randn({36, 24}),
         at::randn({36, 24}),
         at::randn({24, 36}),
         adds ? at::randn({2, 5, 24}) : Tensor()},
        [](const auto& in) {
          return swiglu_mlp(in[0], in[4], {in[1], in[2], in[3]});
        },
        [](const auto& in) {
          const Tensor result = at::linear(
              at::silu(at::linear(in[0], in[1])) * at::linear(in[0], in[2]),
              in[3]);
          return in[4].defined() ? in[4] + result : result;
        });
  }
}

TEST(SwiGluMlp, SaysThatItHasNoSecondDerivatives) {
  const Tensor x = at::randn({2, 8}).requires_grad_();
  const Tensor wide = at::randn({12, 8});
  const Tensor y = swiglu_mlp(x, {}, {wide, wide, at::randn({8, 12})});
  EXPECT_THROW(
      y.sum().backward({}, /*keep_graph=*/true, /*create_graph=*/true),
      UsageError);
}

TEST(Gelu, IsLibtorchs) {
  const Tensor x = at::cat(
      {at::linspace(-12, 12, 4001), at::tensor({0.0F, -100.0F, 100.0F})});
  for (const auto kind : {GeluKind::exact, GeluKind::tanh}) {
    expect_same(
        {x},
        [&](const auto& in) { return gelu(in[0], kind); },
        [&](const auto& in) {
          return at::gelu(in[0], kind == GeluKind::exact ? "none" : "tanh");
        });
  }
  const Tensor wrong = gelu(
      at::full({5}, std::numeric_limits<float>::quiet_NaN()),
      GeluKind::tanh);
  EXPECT_TRUE(wrong.isnan().all().item<bool>());
}

TEST(Attention, IsLibtorchs) {
  torch::manual_seed(4);
  for (const auto& [queries, keys, groups, causal] :
       std::vector<std::tuple<int, int, int, bool>>{
           {5, 5, 4, true},
           {64, 64, 4, true},
           {150, 150, 2, true},
           {580, 580, 4, true},
           {150, 150, 1, false},
           {70, 33, 4, false},
           {1, 9, 2, false}}) {
    SCOPED_TRACE(
        ::testing::Message() << queries << " " << keys << " " << groups);
    expect_same(
        {at::randn({2, queries, 4, 20}),
         at::randn({2, keys, groups, 20}),
         at::randn({2, keys, groups, 20})},
        [&](const auto& in) {
          return attend(in[0], in[1], in[2], {.causal = causal});
        },
        [&](const auto& in) {
          const auto heads = [&](const Tensor& x) {
            return x.unsqueeze(3)
                .expand({-1, -1, -1, 4 / x.size(2), -1})
                .flatten(2, 3)
                .transpose(1, 2);
          };
          return at::scaled_dot_product_attention(
                     heads(in[0]),
                     heads(in[1]),
                     heads(in[2]),
                     {},
                     0,
                     causal)
              .transpose(1, 2)
              .flatten(2, 3);
        });
  }
}

/// Results in 16 bits are those of fp32, rounded at the end.
TEST(SixteenBits, AreComputedAsPreciselyAsTheyAreStored) {
  torch::manual_seed(5);
  for (const auto& [type, precision] :
       {std::pair(at::kBFloat16, 0x1p-7), std::pair(at::kHalf, 0x1p-10)}) {
    const auto narrow = [type = type](const Tensor& x) { return x.to(type); };
    const auto rounded = [&](const Tensor& x) {
      return narrow(x).to(at::kFloat);
    };
    const auto in_type = [&](const auto& function) {
      return [&](const std::vector<Tensor>& in) {
        std::vector<Tensor> own;
        for (const Tensor& x : in) {
          own.push_back(narrow(x));
        }
        const Tensor result = function(own);
        EXPECT_EQ(result.scalar_type(), type);
        return result.to(at::kFloat);
      };
    };
    expect_same(
        {rounded(at::randn({3, 50, 64})),
         rounded(at::randn({40, 64})),
         rounded(at::randn({40}))},
        in_type([](const auto& in) { return linear(in[0], in[1], in[2]); }),
        [](const auto& in) { return at::linear(in[0], in[1], in[2]); },
        precision);
    expect_same(
        {rounded(at::randn({3, 50, 64})), rounded(at::randn({3, 40, 64}))},
        in_type([](const auto& in) { return linear(in[0], in[1], Tensor()); }),
        [](const auto& in) { return at::bmm(in[0], in[1].transpose(1, 2)); },
        precision);
    const Tensor mask = at::randn({1, 1, 30, 30}).gt(-1);
    for (const Tensor& seen : {Tensor(), mask}) {
      const auto attention = [&](const auto& in) {
        return attend(
            in[0],
            in[1],
            in[2],
            {.mask = seen, .causal = !seen.defined()});
      };
      std::vector<Tensor> heads;
      for (int i = 0; i < 3; ++i) {
        heads.push_back(rounded(at::randn({2, 30, 4, 16})));
      }
      expect_same(heads, in_type(attention), attention, 8 * precision);
    }
    const Tensor left = narrow(at::randn({20, 30}));
    const Tensor right = narrow(at::randn({30, 25}));
    const Tensor into = narrow(at::randn({20, 25}));
    const Tensor sum =
        into.to(at::kFloat) + at::mm(left.to(at::kFloat), right.to(at::kFloat));
    product_into(into, left, right, Into::add);
    expect_close(into.to(at::kFloat), sum, precision);
  }
}

} // namespace
} // namespace cairn::nn::own_kernels_test
