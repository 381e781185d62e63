#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <cairn/nn/attention.h>
#include <cairn/nn/context_parallel.h>
#include <cairn/nn/dropout.h>
#include <cairn/nn/tensor_parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

// Dropout that depends on the place of an element in the run alone.

namespace cairn::nn::dropout_test {
namespace {

using at::Tensor;
using distributed::ProcessGroup;

constexpr std::int64_t batch = 2;
constexpr std::int64_t sequence = 8;
constexpr std::int64_t hidden = 40;

Tensor some_hidden() {
  return at::arange(1, batch * sequence * hidden + 1, at::kFloat)
      .view({batch, sequence, hidden});
}

Tensor numbers(std::int64_t count = batch) {
  return sample_numbers(1000, count, at::kCPU);
}

LayerContext at_path(std::string path) {
  LayerContext context;
  context.path = std::move(path);
  return context;
}

TEST(Dropout, IsOneForAnySplitOfTheTokens) {
  testing::run_ranks(2, [](const ProcessGroup& group) {
    const Tensor x = some_hidden();
    const Tensor whole =
        Dropout(at_path("layers.3"), "a", 0.4).forward(x, numbers());
    LayerContext context = at_path("layers.3");
    context.group = group;
    EXPECT_TRUE(
        at::equal(Dropout(context, "a", 0.4).forward(x, numbers()), whole));
    context.sequence_parallel = true;
    EXPECT_TRUE(at::equal(
        Dropout(context, "a", 0.4)
            .forward(keep_own_tokens(x, group), numbers()),
        keep_own_tokens(whole, group)));
    for (const ContextKind kind : {ContextKind::ring, ContextKind::ulysses}) {
      LayerContext shared = at_path("layers.3");
      shared.sequence = {group, kind};
      EXPECT_TRUE(at::equal(
          Dropout(shared, "a", 0.4)
              .forward(own_sequence(x, shared.sequence), numbers()),
          own_sequence(whole, shared.sequence)));
    }
  });
}

TEST(Dropout, IsOneForAnySplitOfTheBatch) {
  testing::run_ranks(1, [](const auto&) {
    const Tensor x = some_hidden();
    const Dropout dropout(at_path("layers.3"), "a", 0.4);
    const Tensor whole = dropout.forward(x, numbers());
    for (std::int64_t i = 0; i < batch; ++i) {
      EXPECT_TRUE(at::equal(
          dropout.forward(x.narrow(0, i, 1), numbers().narrow(0, i, 1)),
          whole.narrow(0, i, 1)));
    }
  });
}

TEST(Dropout, DiffersByPlaceSeedSampleAndText) {
  testing::run_ranks(1, [](const auto&) {
    const Tensor x = some_hidden();
    const auto drop = [&](const LayerContext& context, const char* name) {
      return Dropout(context, name, 0.4).forward(x, numbers());
    };
    const Tensor first = drop(at_path("layers.3"), "a");
    EXPECT_TRUE(at::equal(drop(at_path("layers.3"), "a"), first));
    EXPECT_FALSE(at::equal(drop(at_path("layers.3"), "b"), first));
    EXPECT_FALSE(at::equal(drop(at_path("layers.4"), "a"), first));
    LayerContext other = at_path("layers.3");
    other.dropout_seed = 1;
    EXPECT_FALSE(at::equal(drop(other, "a"), first));
    const Dropout dropout(at_path("layers.3"), "a", 0.4);
    EXPECT_FALSE(at::equal(
        dropout.forward(x, sample_numbers(1002, batch, at::kCPU)),
        first));
    EXPECT_FALSE(at::equal(dropout.forward(x, numbers(), 1), first));
  });
}

TEST(Dropout, DropsGradientsAlike) {
  testing::run_ranks(1, [](const auto&) {
    const Dropout dropout(at_path("layers.3"), "a", 0.4);
    for (const at::ScalarType type :
         {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
      const Tensor ones =
          at::ones({batch, sequence, hidden}, type).requires_grad_();
      const Tensor y = dropout.forward(ones, numbers());
      EXPECT_EQ(y.scalar_type(), type);
      y.sum().backward();
      EXPECT_TRUE(at::equal(ones.grad(), y.detach()));
      EXPECT_TRUE(
          at::equal(y.ne(0), dropout.forward(some_hidden(), numbers()).ne(0)));
      EXPECT_NEAR(y.eq(0).to(at::kDouble).mean().item<double>(), 0.4, 0.1);
    }
    // Any strides.
    const Tensor turned = at::ones({batch, hidden, sequence}).transpose(1, 2);
    EXPECT_TRUE(at::equal(
        dropout.forward(turned, numbers()),
        dropout.forward(turned.contiguous(), numbers())));
  });
}

TEST(Dropout, DrawsSamplesThatNobodyCounts) {
  testing::run_ranks(2, [](const ProcessGroup& group) {
    const Dropout dropout(at_path("layers.3"), "a", 0.4);
    const Tensor x = some_hidden();
    torch::manual_seed(11);
    const Tensor first = dropout.forward(x, {});
    const Tensor second = dropout.forward(x, {});
    EXPECT_FALSE(at::equal(first, second));
    torch::manual_seed(11);
    EXPECT_TRUE(at::equal(dropout.forward(x, {}), first));
    const Tensor all = group.all_gather(second).wait();
    EXPECT_TRUE(
        at::equal(all.narrow(0, 0, batch), all.narrow(0, batch, batch)));
    EXPECT_THROW(dropout.forward(x, numbers(3)), UsageError);
    EXPECT_TRUE(at::equal(
        Dropout(at_path("layers.3"), "a", 0).forward(x, numbers(3)),
        x));
  });
}

/// Attention with dropped weights: of some heads, and of some samples.
TEST(Dropout, OfAttentionIsOneForAnySplitOfHeadsAndBatch) {
  testing::run_ranks(1, [](const auto&) {
    torch::manual_seed(4);
    constexpr std::int64_t heads = 4;
    constexpr std::int64_t size = 8;
    const Tensor query = at::randn({batch, sequence, heads, size});
    const Tensor key = at::randn({batch, sequence, 2, size});
    const Tensor value = at::randn({batch, sequence, 2, size});
    const auto attended = [&](std::int64_t first_sample,
                              std::int64_t samples,
                              std::int64_t first_group,
                              std::int64_t groups,
                              double dropout) {
      const auto part = [&](const Tensor& x, std::int64_t shared) {
        return x.narrow(0, first_sample, samples)
            .narrow(2, shared * first_group, shared * groups);
      };
      return attend(
                 part(query, 2),
                 part(key, 1),
                 part(value, 1),
                 {.causal = true,
                  .dropout = dropout,
                  .noise =
                      {.key = 77,
                       .samples = numbers().narrow(0, first_sample, samples),
                       .first_head = 2 * first_group}})
          .unflatten(2, {2 * groups, size});
    };
    const Tensor whole = attended(0, batch, 0, 2, 0.3);
    EXPECT_FALSE(at::allclose(whole, attended(0, batch, 0, 2, 0)));
    for (std::int64_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(
          at::allclose(attended(i, 1, 0, 2, 0.3), whole.narrow(0, i, 1)));
      EXPECT_TRUE(at::allclose(
          attended(0, batch, i, 1, 0.3),
          whole.narrow(2, 2 * i, 2)));
    }
    // With so few weights dropped it is attention.
    EXPECT_TRUE(at::allclose(
        attended(0, batch, 0, 2, 1e-9),
        attended(0, batch, 0, 2, 0),
        1e-4,
        1e-5));
  });
}

} // namespace
} // namespace cairn::nn::dropout_test
