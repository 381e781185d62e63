#include "nn/moe/grouped_product.h"

#include "nn/internal/deferred_gradients.h"
#include "nn/moe/ragged_rows.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

// Products of groups of rows, against a loop in double.

namespace cairn::nn::grouped_product_test {
namespace {

using at::Tensor;

/// Groups of 3, 0, 6 and 0 rows, and a row of nobody.
constexpr std::int64_t rows = 10;
constexpr std::int64_t used = 9;
RowGroups some_groups() {
  return {at::tensor({3, 3, 9, 9}, at::kInt)};
}

struct Parameters {
  Tensor x;
  Tensor weight;
  Tensor bias; ///< may be undefined
};

Parameters parameters(at::ScalarType type, bool biased) {
  at::manual_seed(3);
  const auto made = [&](at::IntArrayRef shape) {
    return at::randn(shape).to(type).requires_grad_();
  };
  return {made({rows, 6}), made({4, 5, 6}), biased ? made({4, 5}) : Tensor()};
}

Parameters in_double(const Parameters& given) {
  const auto copy = [](const Tensor& x) {
    return x.defined() ? x.detach().to(at::kDouble).requires_grad_() : x;
  };
  return {copy(given.x), copy(given.weight), copy(given.bias)};
}

/// Results and gradients of the rows that are used.
std::vector<Tensor> gradients_of(const Parameters& p, const Tensor& result) {
  const Tensor outer =
      at::cos(at::arange(used * 5, at::kDouble)).view({used, 5});
  const Tensor found = result.narrow(0, 0, used);
  (found * outer.to(found.scalar_type())).sum().backward();
  std::vector<Tensor> all{
      found.detach(),
      p.x.grad().narrow(0, 0, used),
      p.weight.grad()};
  if (p.bias.defined()) {
    all.push_back(p.bias.grad());
  }
  return all;
}

std::vector<Tensor> wanted_of(const Parameters& p) {
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t end : {3, 3, 9, 9}) {
    const auto i = static_cast<std::int64_t>(parts.size());
    const Tensor part = p.x.narrow(0, begin, end - begin).mm(p.weight[i].t());
    parts.push_back(p.bias.defined() ? part + p.bias[i] : part);
    begin = end;
  }
  return gradients_of(p, at::cat(parts));
}

void expect_near(
    const std::vector<Tensor>& found,
    const std::vector<Tensor>& wanted,
    double bound) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(at::allclose(found[i].to(at::kDouble), wanted[i], bound, bound))
        << i << found[i] << wanted[i];
  }
}

TEST(GroupedProduct, IsALoopOverGroups) {
  for (const bool biased : {false, true}) {
    const Parameters own = parameters(at::kFloat, biased);
    const Parameters exact = in_double(own);
    expect_near(
        gradients_of(
            own,
            grouped_product(own.x, own.weight, own.bias, some_groups())),
        wanted_of(exact),
        1e-5);
  }
}

TEST(GroupedProduct, TakesSixteenBits) {
  const Parameters own = parameters(at::kBFloat16, true);
  const Parameters exact = in_double(own);
  const Tensor result =
      grouped_product(own.x, own.weight, own.bias, some_groups());
  EXPECT_EQ(result.scalar_type(), at::kBFloat16);
  expect_near(gradients_of(own, result), wanted_of(exact), 4e-2);
}

TEST(GroupedProduct, PutsGradientsOff) {
  const Parameters own = parameters(at::kFloat, true);
  const Parameters exact = in_double(own);
  const auto later = std::make_shared<DeferredGradients>();
  Tensor result;
  {
    const DeferWeightGradients scope(later);
    result = grouped_product(own.x, own.weight, own.bias, some_groups());
  }
  result.narrow(0, 0, used).sum().backward();
  EXPECT_FALSE(own.weight.grad().defined());
  EXPECT_TRUE(own.bias.grad().defined());
  later->run();
  const Tensor sums = at::zeros({4, 6}, at::kDouble);
  sums[0] = exact.x.detach().narrow(0, 0, 3).sum(0);
  sums[2] = exact.x.detach().narrow(0, 3, 6).sum(0);
  EXPECT_TRUE(at::allclose(
      own.weight.grad().to(at::kDouble),
      sums.unsqueeze(1).expand({4, 5, 6}),
      1e-5,
      1e-5));
}

TEST(GroupedProduct, RefusesWhatDoesNotFit) {
  const RowGroups three{at::tensor({1, 2, 3}, at::kInt)};
  const Parameters p = parameters(at::kFloat, false);
  EXPECT_THROW(grouped_product(p.x, p.weight, {}, three), UsageError);
  EXPECT_THROW(
      grouped_product(p.x.t(), p.weight, {}, some_groups()),
      UsageError);
  const RowGroups wide{at::tensor({3, 3, 9, 9}, at::kLong)};
  EXPECT_THROW(grouped_product(p.x, p.weight, {}, wide), UsageError);
}

TEST(RaggedRows, FollowTheExperts) {
  const Tensor experts = at::tensor({2, 0, 2, 0, 0, 3}, at::kLong).view({2, 3});
  const RaggedRows found =
      ragged_rows(experts, at::tensor({3, 0, 2, 1}, at::kLong));
  EXPECT_TRUE(at::equal(found.groups.ends, at::tensor({3, 3, 5, 6}, at::kInt)));
  EXPECT_EQ(found.groups.known_ends, (std::vector<std::int64_t>{3, 3, 5, 6}));
  EXPECT_TRUE(at::equal(
      found.slots,
      at::tensor({3, 0, 4, 1, 2, 5}, at::kLong).view({2, 3})));
  EXPECT_TRUE(
      at::equal(found.comers, at::tensor({1, 3, 4, 0, 2, 5}, at::kLong)));
  EXPECT_TRUE(
      at::equal(found.sources, at::tensor({1, 0, 1, 0, 2, 2}, at::kLong)));
}

} // namespace
} // namespace cairn::nn::grouped_product_test
