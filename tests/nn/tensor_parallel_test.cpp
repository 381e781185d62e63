#include "nn/parallel/arriving_shares.h"
#include "nn/parallel_products.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <cairn/nn/attention.h>
#include <cairn/nn/shared_head.h>
#include <cairn/nn/tensor_parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

// Products and attention whose weights several ranks divide, beside the same in
// one process.

namespace cairn::nn::tensor_parallel_test {
namespace {

using at::Tensor;

using testing::numbers;
using testing::Products;

TEST(TensorParallel, ProductsAreThoseOfOneProcess) {
  for (const int ranks : {2, 3, 4}) {
    testing::run_ranks(ranks, [&](const ProcessGroup& group) {
      // Shares of 2, 10 and 34 tokens: less than a part of a sum each, and some
      // that do not divide into parts.
      for (const std::int64_t each : {1, 5, 17}) {
        const Products products({.ranks = ranks, .tokens = each * ranks});
        for (const TokenSplit tokens :
             {TokenSplit::none, TokenSplit::split, TokenSplit::overlapped}) {
          SCOPED_TRACE(
              ::testing::Message()
              << each << " tokens, " << static_cast<int>(tokens));
          products.compare(group, tokens);
        }
      }
    });
  }
}

TEST(TensorParallel, SixteenBitsOverlapAsWell) {
  testing::run_ranks(2, [](const ProcessGroup& group) {
    const Tensor x = numbers({2, 3, 8}, 0.7 + group.rank()).to(at::kBFloat16);
    const Tensor weight = numbers({6, 8}, 1.3 + group.rank()).to(at::kBFloat16);
    const Tensor bias = numbers({6}, 0.3).to(at::kBFloat16);
    const auto run = [&](TokenSplit tokens) {
      return column_linear(x, {weight}, {bias}, group, tokens)[0];
    };
    EXPECT_TRUE(at::equal(run(TokenSplit::overlapped), run(TokenSplit::split)));
  });
}

TEST(ArrivingShares, WorkOnTheOwnShareDoesNotWaitForOthers) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path begun = folder.path() / "begun";
  testing::run_ranks(2, [&](const ProcessGroup& group) {
    if (group.rank() == 1) { // sends its share once the other rank works
      while (!std::filesystem::exists(begun)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    ArrivingShares shares(at::full({3, 2}, group.rank() + 1.0), group);
    std::vector<int> order;
    shares.for_each([&](int rank, const Tensor& share) {
      if (order.empty() && group.rank() == 0) {
        std::ofstream(begun) << "yes";
      }
      order.push_back(rank);
      EXPECT_TRUE(at::equal(share, at::full({3, 2}, rank + 1.0)));
    });
    EXPECT_EQ(order, (std::vector{group.rank(), 1 - group.rank()}));
    EXPECT_TRUE(at::equal(
        shares.joined().select(1, 0),
        at::tensor({1., 1., 1., 2., 2., 2.}, at::kFloat)));
  });
}

TEST(SharedHead, EveryUsedColumnIsComputedOnce) {
  for (const SharedHead& head :
       {SharedHead{.ranks = 2, .query_columns = 16, .key_value_columns = 16},
        SharedHead{.ranks = 4, .query_columns = 8, .key_value_columns = 16},
        SharedHead{.ranks = 3, .query_columns = 0, .key_value_columns = 12},
        SharedHead{.ranks = 1, .query_columns = 4, .key_value_columns = 2}}) {
    std::map<std::pair<int, std::int64_t>, int> used;
    for (const HeadStretch& each : head_stretches(head)) {
      for (std::int64_t i = 0; i < each.columns; ++i) {
        // The column in the order of all queries, the key and the value.
        const std::int64_t computed =
            each.computed_by * head.columns_computed() + each.computed_at + i;
        const std::int64_t at = each.used_at + i;
        EXPECT_LT(each.computed_at + i, head.columns_computed());
        EXPECT_EQ(
            computed,
            at < head.query_columns
                ? each.used_by * head.query_columns + at
                : head.ranks * head.query_columns + at - head.query_columns);
        ++used[{each.used_by, at}];
      }
    }
    EXPECT_EQ(
        used.size(),
        static_cast<std::size_t>(head.ranks * head.columns_used()));
    for (const auto& [column, times] : used) {
      EXPECT_EQ(times, 1);
    }
  }
}

/// Trains nothing: compares the attention of a group with that of one process.
template <typename Attention>
void compare_attention(
    const ProcessGroup& group,
    const AttentionOptions& options,
    bool split) {
  const auto make = [&](const ProcessGroup& ranks) {
    LayerContext context;
    context.group = ranks;
    context.sequence_parallel = split;
    context.path = "attention";
    context.initial->std = 0.5;
    context.initial->output_std = 0.5;
    return std::make_shared<Attention>(context, options);
  };
  const std::int64_t length = 8;
  const Tensor whole = numbers({2, length, options.hidden}, 0.61);
  const Tensor memory = numbers({2, length, options.hidden}, 0.37);
  const Tensor outer = numbers({2, length, options.hidden}, 0.23);
  const auto run = [&](Attention& layer,
                       const Tensor& x,
                       const Tensor& other,
                       const Tensor& gradient) {
    BlockInput input;
    input.memory = other;
    const Tensor result = layer.forward(x, input);
    result.backward(gradient);
    return result.detach();
  };
  const auto alone = make({});
  const Tensor x = whole.clone().requires_grad_();
  const Tensor result = run(*alone, x, memory, outer);

  const auto own = [&](const Tensor& t) {
    return split ? Products::share(t, group).contiguous() : t;
  };
  const auto shared = make(group);
  const Tensor mine = own(whole).clone().requires_grad_();
  const Tensor got = run(*shared, mine, own(memory), own(outer));
  EXPECT_TRUE(at::allclose(got, own(result), 1e-4, 1e-5))
      << (got - own(result)).abs().max();
  EXPECT_TRUE(at::allclose(mine.grad(), own(x.grad()), 1e-4, 1e-5));
  std::map<std::string, ParameterSlice> slices;
  for (const ParameterSlice& slice : parameter_slices(*shared)) {
    slices.emplace(slice.name, slice);
  }
  const auto all = alone->named_parameters();
  for (const auto& parameter : shared->named_parameters()) {
    if (!slices.contains(parameter.key())) {
      continue; // the bias of the sum
    }
    const auto part_of = [&](Tensor t) {
      const ParameterSlice& slice = slices.at(parameter.key());
      for (std::size_t d = 0; d < slice.offset.size(); ++d) {
        const auto dim = static_cast<std::int64_t>(d);
        t = t.narrow(dim, slice.offset[d], parameter.value().size(dim));
      }
      return t;
    };
    EXPECT_TRUE(at::equal(parameter.value(), part_of(all[parameter.key()])))
        << parameter.key();
    EXPECT_TRUE(at::allclose(
        parameter.value().grad(),
        part_of(all[parameter.key()].grad()),
        1e-4,
        1e-4)) // the gradient of a key's bias is nothing but rounding
        << parameter.key();
  }
}

TEST(SharedHead, AttentionOfFewKeysIsThatOfOneProcess) {
  testing::run_ranks(4, [](const ProcessGroup& group) {
    for (const std::int64_t key_value_heads : {1, 2, 4}) {
      for (const bool split : {false, true}) {
        for (const bool overlap : {false, true}) {
          SCOPED_TRACE(
              ::testing::Message() << key_value_heads << " heads, split "
                                   << split << ", overlapped " << overlap);
          // Shares of 12 or 16 rows of heads of 6: cuts are within heads.
          const AttentionOptions options{
              .hidden = 24,
              .heads = 8,
              .key_value_heads = key_value_heads,
              .head_size = 6,
              .overlap_tokens = overlap};
          compare_attention<SelfAttention>(group, options, split);
          compare_attention<CrossAttention>(group, options, split);
        }
      }
    }
  });
}

TEST(SharedHead, RefusesHeadsThatRanksCannotShare) {
  testing::run_ranks(4, [](const ProcessGroup& group) {
    LayerContext context;
    context.group = group;
    EXPECT_THROW(
        SelfAttention(
            context,
            {.hidden = 24, .heads = 12, .key_value_heads = 3, .head_size = 2}),
        ConfigError);
    // Four ranks cannot share the six rows of a key and a value.
    EXPECT_THROW(
        SelfAttention(
            context,
            {.hidden = 24, .heads = 4, .key_value_heads = 1, .head_size = 3}),
        ConfigError);
  });
}

} // namespace
} // namespace cairn::nn::tensor_parallel_test
