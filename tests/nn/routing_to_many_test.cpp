#include <ATen/ATen.h>
#include <cairn/nn/mixture.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

// Routes to more than two experts, against the rules of DeepSpeed's topkgating
// written out for one token and one expert at a time.

namespace cairn::nn::routing_to_many_test {
namespace {

using at::Tensor;

struct Plain {
  std::int64_t capacity = 0;
  /// For each token and each expert: the place, or -1.
  std::vector<std::vector<std::int64_t>> places;
  Tensor weights; ///< [tokens, experts] in double, with autograd
  std::vector<std::int64_t> counts;
  Tensor loss;
};

Plain plain(const Tensor& scores, const RoutingOptions& options) {
  const auto tokens = static_cast<std::size_t>(scores.size(0));
  const auto experts = static_cast<std::size_t>(scores.size(1));
  const Tensor gates = at::softmax(scores, 1);
  const auto gate = [&](std::size_t t, std::size_t e) {
    return gates[static_cast<std::int64_t>(t)][static_cast<std::int64_t>(e)]
        .item<double>();
  };
  std::vector<std::vector<bool>> chosen(tokens, std::vector<bool>(experts));
  Plain found;
  found.counts.resize(experts);
  for (std::size_t t = 0; t < tokens; ++t) {
    std::vector<std::size_t> order(experts);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
      return gate(t, a) > gate(t, b);
    });
    for (std::int64_t i = 0; i < options.top_k; ++i) {
      chosen[t][order[static_cast<std::size_t>(i)]] = true;
      ++found.counts[order[static_cast<std::size_t>(i)]];
    }
  }
  found.capacity = options.drop_tokens
      ? std::max<std::int64_t>(
            options.min_capacity,
            static_cast<std::int64_t>(std::ceil(
                static_cast<double>(tokens) / static_cast<double>(experts) *
                options.capacity_factor * static_cast<double>(options.top_k))))
      : *std::ranges::max_element(found.counts);
  found.places.assign(tokens, std::vector<std::int64_t>(experts, -1));
  const Tensor mask = at::zeros(gates.sizes(), gates.options());
  const Tensor shares = at::zeros({scores.size(1)}, gates.options());
  for (std::size_t e = 0; e < experts; ++e) {
    std::vector<std::size_t> comers;
    for (std::size_t t = 0; t < tokens; ++t) {
      if (chosen[t][e]) {
        comers.push_back(t);
      }
    }
    if (options.drop_least) {
      std::ranges::stable_sort(comers, [&](std::size_t a, std::size_t b) {
        return gate(a, e) > gate(b, e);
      });
    }
    comers.resize(
        std::min(comers.size(), static_cast<std::size_t>(found.capacity)));
    std::ranges::sort(comers);
    for (std::size_t i = 0; i < comers.size(); ++i) {
      found.places[comers[i]][e] = static_cast<std::int64_t>(i);
      mask[static_cast<std::int64_t>(comers[i])][static_cast<std::int64_t>(e)] =
          1;
    }
    shares[static_cast<std::int64_t>(e)] =
        static_cast<double>(found.counts[e]) / static_cast<double>(tokens);
  }
  const Tensor kept = gates * mask;
  found.weights = kept / kept.sum(1, true).clamp_min(1e-30);
  const auto all = static_cast<double>(experts);
  found.loss = (gates.mean(0) * shares).mean() * all * all /
      static_cast<double>(options.top_k);
  return found;
}

void expect_plain(
    std::int64_t tokens,
    std::int64_t experts,
    const RoutingOptions& options,
    bool drops) {
  at::manual_seed(tokens);
  const Tensor given = at::randn({tokens, experts}) * 2;
  const Tensor scores = given.clone().requires_grad_();
  const Tensor exact = given.to(at::kDouble).requires_grad_();
  const Routes routes = route(scores, options, {});
  const Plain wanted = plain(exact, options);
  EXPECT_EQ(routes.capacity, wanted.capacity);
  ASSERT_EQ(routes.slots.sizes(), at::IntArrayRef({options.top_k, tokens}));
  EXPECT_NEAR(
      routes.balance_loss.item<double>(),
      wanted.loss.item<double>(),
      1e-5);
  for (std::int64_t e = 0; e < experts; ++e) {
    EXPECT_EQ(
        routes.counts[e].item<std::int64_t>(),
        wanted.counts[static_cast<std::size_t>(e)]);
  }
  const std::int64_t nowhere = experts * routes.capacity;
  const Tensor weights = at::zeros({tokens, experts}, at::kDouble);
  std::int64_t dropped = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<std::int64_t> found(static_cast<std::size_t>(experts), -1);
    for (std::int64_t k = 0; k < options.top_k; ++k) {
      const auto slot = routes.slots[k][t].item<std::int64_t>();
      if (slot == nowhere) {
        EXPECT_EQ(routes.weights[k][t].item<float>(), 0);
        ++dropped;
        continue;
      }
      const std::int64_t expert = slot / routes.capacity;
      found[static_cast<std::size_t>(expert)] = slot % routes.capacity;
      weights[t][expert] = routes.weights[k][t].item<double>();
    }
    EXPECT_EQ(found, wanted.places[static_cast<std::size_t>(t)]) << t;
  }
  EXPECT_EQ(dropped > 0, drops);
  EXPECT_TRUE(at::allclose(weights, wanted.weights, 1e-5, 1e-6));
  // Squares of the weights, so that their gradients do not cancel.
  (routes.weights.square().sum() + 3 * routes.balance_loss).backward();
  (wanted.weights.square().sum() + 3 * wanted.loss).backward();
  EXPECT_TRUE(
      at::allclose(scores.grad().to(at::kDouble), exact.grad(), 1e-4, 1e-6));
}

TEST(RoutingToMany, DropsTheLeastProbable) {
  expect_plain(
      21,
      6,
      {.top_k = 3, .capacity_factor = 0.7, .min_capacity = 2},
      true);
  expect_plain(
      64,
      16,
      {.top_k = 8, .capacity_factor = 0.9, .min_capacity = 1},
      true);
}

TEST(RoutingToMany, DropsTheLast) {
  const RoutingOptions options{
      .top_k = 3,
      .capacity_factor = 0.7,
      .min_capacity = 2,
      .drop_least = false};
  expect_plain(21, 6, options, true);
  expect_plain(40, 5, options, true);
}

TEST(RoutingToMany, MakesRoomForAll) {
  expect_plain(21, 6, {.top_k = 4, .drop_tokens = false}, false);
  expect_plain(5, 9, {.top_k = 9, .drop_tokens = false}, false);
}

} // namespace
} // namespace cairn::nn::routing_to_many_test
