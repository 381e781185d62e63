#include "nn/moe/grouped_product.h"

#include "nn/moe/ragged_rows.h"
#include "nn/moe/router_scores.h"
#include "support/no_waiting.h"

#include <ATen/ATen.h>
#include <cairn/nn/mixture.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <utility>
#include <vector>

// Products of groups of rows on a GPU, against those on the CPU in double, and
// that the host does not wait for the routing.

namespace cairn::nn::grouped_product_gpu_test {
namespace {

using at::Tensor;

Tensor on_cpu(const Tensor& x) {
  return x.detach().to(at::kCPU, at::kDouble);
}

void expect_near(const Tensor& found, const Tensor& wanted, const char* what) {
  const double size = wanted.abs().max().item<double>();
  const double off = (on_cpu(found) - wanted).abs().max().item<double>();
  EXPECT_LE(off, 2e-2 * size) << what; // also if it is NaN
}

/// Rows of choices on the GPU, some experts of which nobody chose.
RaggedRows some_rows(
    std::int64_t top_k,
    std::int64_t tokens,
    std::int64_t experts) {
  const Tensor chosen =
      at::randint(experts / 2, experts, {top_k, tokens}, at::kLong);
  return ragged_rows(
      chosen.to(at::kCUDA),
      at::bincount(chosen.flatten(), {}, experts).to(at::kCUDA));
}

TEST(GroupedProductGpu, IsTheCpus) {
  at::manual_seed(40);
  for (const bool biased : {false, true}) {
    for (const std::int64_t experts : {1, 8, 128}) {
      SCOPED_TRACE(experts);
      constexpr std::int64_t in = 64;
      constexpr std::int64_t out = 96;
      const RaggedRows rows = some_rows(2, 301, experts);
      const RowGroups known{rows.groups.ends.cpu()};
      const std::int64_t all = rows.sources.numel();
      const std::int64_t used = known.ends[-1].item<std::int64_t>();
      ASSERT_LE(used, all);
      const Tensor taken = rows.comers.cpu().lt(2 * 301).unsqueeze(1);
      const auto random = [](at::IntArrayRef shape) {
        return at::randn(shape).to(at::kBFloat16);
      };
      // Rows that nobody came to are zeros, and so are their gradients.
      const Tensor x = random({all, in}) * taken;
      const Tensor outer = random({all, out}) * taken;
      const Tensor weight = random({experts, out, in});
      const Tensor bias = biased ? random({experts, out}) : Tensor();
      const auto results = [&](at::Device device, at::ScalarType type) {
        const auto leaf = [&](const Tensor& value) {
          return value.defined() ? value.to(device, type).requires_grad_()
                                 : value;
        };
        const std::vector<Tensor> leaves{leaf(x), leaf(weight), leaf(bias)};
        const Tensor result = grouped_product(
            leaves[0],
            leaves[1],
            leaves[2],
            device.is_cuda() ? rows.groups : known);
        result.backward(outer.to(device, type));
        std::vector<Tensor> made{
            result.narrow(0, 0, used),
            leaves[0].grad().narrow(0, 0, used),
            leaves[1].grad()};
        if (biased) {
          made.push_back(leaves[2].grad());
        }
        return made;
      };
      const std::vector<Tensor> found = results(at::kCUDA, at::kBFloat16);
      const std::vector<Tensor> wanted = results(at::kCPU, at::kDouble);
      const char* const names[] = {"result", "rows", "weights", "biases"};
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        expect_near(found[i], wanted[i].detach(), names[i]);
      }
    }
  }
}

TEST(GroupedProductGpu, TakesWhatIsNotInEights) {
  at::manual_seed(41);
  const RaggedRows rows = some_rows(1, 33, 3);
  const std::int64_t used = rows.groups.ends.cpu()[-1].item<std::int64_t>();
  for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    const Tensor x = at::randn({rows.sources.numel(), 12}).to(at::kCUDA, type);
    const Tensor weight = at::randn({3, 10, 12}).to(at::kCUDA, type);
    EXPECT_FALSE(multiplies_groups(x, weight));
    expect_near(
        grouped_product(x, weight, {}, rows.groups).narrow(0, 0, used),
        grouped_product(on_cpu(x), on_cpu(weight), {}, {rows.groups.ends.cpu()})
            .narrow(0, 0, used),
        "result");
  }
}

TEST(RouterScoresGpu, LoseNothingInSixteenBits) {
  at::manual_seed(42);
  for (const std::int64_t experts : {3, 8, 128}) {
    SCOPED_TRACE(experts);
    const Tensor x = at::randn({300, 64}).to(at::kBFloat16);
    const Tensor weight = at::randn({experts, 64}).to(at::kBFloat16);
    const Tensor outer = at::randn({300, experts});
    const Tensor of_others = at::randn({300, 64}).to(at::kBFloat16);
    const auto results = [&](at::Device device, at::ScalarType type) {
      const Tensor own = x.to(device, type).requires_grad_();
      const Tensor weights = weight.to(device, type).requires_grad_();
      const ScoredTokens scored = type == at::kDouble
          ? ScoredTokens{own.mm(weights.t()), own}
          : router_scores(own, weights);
      torch::autograd::backward(
          {scored.scores, scored.tokens},
          {outer.to(device, scored.scores.scalar_type()),
           of_others.to(device, type)});
      return std::vector{scored.scores.detach(), own.grad(), weights.grad()};
    };
    const auto found = results(at::kCUDA, at::kBFloat16);
    const auto wanted = results(at::kCPU, at::kDouble);
    EXPECT_EQ(found[0].scalar_type(), at::kFloat);
    EXPECT_TRUE(at::allclose(on_cpu(found[0]), wanted[0], 1e-5, 1e-4));
    expect_near(found[1], wanted[1], "tokens");
    expect_near(found[2], wanted[2], "weights");
  }
}

TEST(MixtureGpu, MakesTheHostWaitForNothing) {
  torch::manual_seed(43);
  const RoutingOptions dropless{.top_k = 2, .drop_tokens = false};
  const RoutingOptions many{.top_k = 3, .drop_tokens = false};
  const RoutingOptions with_room{.top_k = 3, .capacity_factor = 1};
  const RoutingOptions drawn{.top_k = 1, .random_selection = true};
  for (const RoutingOptions& routing : {dropless, many, with_room, drawn}) {
    SCOPED_TRACE(
        ::testing::Message()
        << "top " << routing.top_k << (routing.drop_tokens ? ", room" : ""));
    Mixture mixture(
        {.dtype = at::kBFloat16,
         .device = at::kCUDA,
         .initial = InitialWeights{}},
        {.expert = {.hidden = 64, .ffn = 128},
         .experts = 8,
         .routing = routing});
    const Tensor x =
        at::randn({2, 64, 64}).to(at::kCUDA, at::kBFloat16).requires_grad_();
    const Tensor outer = at::ones_like(x);
    const auto pass = [&] {
      const Mixture::Output output = mixture.forward(x);
      (output.hidden + output.balance_loss.to(at::kBFloat16)).backward(outer);
    };
    pass(); // chooses algorithms, which waits
    const testing::NoWaiting scope;
    for (int i = 0; i < 20; ++i) {
      EXPECT_NO_THROW(pass());
    }
    EXPECT_ANY_THROW(x.sum().item<float>()); // the guard sees a wait
  }
}

} // namespace
} // namespace cairn::nn::grouped_product_gpu_test
