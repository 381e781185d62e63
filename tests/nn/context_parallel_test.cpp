#include "nn/attention/partial_attention.h"
#include "nn/attention/sequence_halves.h"
#include "nn/context_parity.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <cairn/nn/attention.h>
#include <cairn/nn/context_parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <vector>

namespace cairn::nn::context_parallel_test {
namespace {

using at::Tensor;
using context_parity::compare;
using distributed::ProcessGroup;

TEST(SequenceHalves, GiveEveryRankAsMuchToDo) {
  constexpr int ranks = 4;
  constexpr std::int64_t sequence = 48;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto [early, late] = sequence_halves(sequence, rank, ranks);
    EXPECT_EQ(early, (TokenRange{rank * 6, 6}));
    EXPECT_EQ(late, (TokenRange{(7 - rank) * 6, 6}));
    for (int step = 1; step < ranks; ++step) {
      const int owner = ring_owner(step, rank, ranks);
      const RingStep work = ring_step(12, rank, owner);
      EXPECT_EQ(work.queries.size * work.keys.size, 72);
      EXPECT_FALSE(work.causal);
    }
    EXPECT_EQ(ring_owner(0, rank, ranks), rank);
    EXPECT_TRUE(ring_step(12, rank, rank).causal);
  }
}

/// A token sees every token before it, each once, over all steps.
TEST(SequenceHalves, LetTokensSeeAllBeforeThem) {
  constexpr int ranks = 3;
  constexpr std::int64_t sequence = 12;
  constexpr std::int64_t own = sequence / ranks;
  std::vector<std::vector<std::int64_t>> places(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (const TokenRange& half : sequence_halves(sequence, rank, ranks)) {
      for (std::int64_t i = 0; i < half.size; ++i) {
        places[static_cast<std::size_t>(rank)].push_back(half.begin + i);
      }
    }
  }
  const auto at = [&](int rank, std::int64_t i) {
    return places[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)];
  };
  std::vector<int> seen(sequence * sequence);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int owner = 0; owner < ranks; ++owner) {
      const RingStep step = ring_step(own, rank, owner);
      for (std::int64_t q = 0; q < step.queries.size; ++q) {
        for (std::int64_t k = 0; k < step.keys.size; ++k) {
          if (!step.causal || k <= q) {
            ++seen[static_cast<std::size_t>(
                at(rank, step.queries.begin + q) * sequence +
                at(owner, step.keys.begin + k))];
          }
        }
      }
    }
  }
  for (std::int64_t q = 0; q < sequence; ++q) {
    for (std::int64_t k = 0; k < sequence; ++k) {
      EXPECT_EQ(
          seen[static_cast<std::size_t>(q * sequence + k)],
          k <= q ? 1 : 0);
    }
  }
}

TEST(ContextParallel, IsAttentionOfOneRank) {
  for (const int ranks : {2, 4}) {
    testing::run_ranks(ranks, [&](const ProcessGroup& group) {
      for (const ContextKind kind : {ContextKind::ring, ContextKind::ulysses}) {
        compare({ranks, kind, 8, 8}, group);
        compare({ranks, kind, 8, 4}, group);
        compare({ranks, kind, 8, 4, at::kBFloat16}, group);
      }
      compare({ranks, ContextKind::ring, 3, 1}, group); // the ring takes any
    });
  }
}

TEST(ContextParallel, RingOfThree) {
  testing::run_ranks(3, [](const ProcessGroup& group) {
    compare({3, ContextKind::ring, 4, 2}, group);
    compare({3, ContextKind::ring, 4, 2, at::kBFloat16}, group);
  });
}

TEST(ContextParallel, PartsJoinWhateverTheirScores) {
  testing::run_ranks(1, [](const auto&) {
    torch::manual_seed(5);
    // Scores in the thousands: exponentials must never stand alone.
    const Tensor query = at::randn({1, 6, 2, 8}) * 100;
    const Tensor key = at::randn({1, 10, 2, 8}) * 100;
    const Tensor value = at::randn({1, 10, 2, 8});
    const auto part = [&](std::int64_t begin, std::int64_t count) {
      return attend_partly(
          {query, key.narrow(1, begin, count), value.narrow(1, begin, count)},
          {.causal = false, .scale = 0.5});
    };
    const PartialAttention all = part(0, 10);
    const PartialAttention sum = part(0, 4);
    join(sum, part(4, 6));
    EXPECT_TRUE(at::allclose(sum.output, all.output, 1e-4, 1e-5));
    EXPECT_TRUE(at::allclose(sum.log_sum, all.log_sum, 1e-5, 1e-3));
  });
}

TEST(ContextParallel, RefusesWhatCannotBeShared) {
  testing::run_ranks(2, [](const ProcessGroup& group) {
    const ContextParallel ring{group, ContextKind::ring};
    const ContextParallel ulysses{group, ContextKind::ulysses};
    EXPECT_THROW(own_sequence(at::ones({1, 6}), ring), ConfigError);
    EXPECT_NO_THROW(own_sequence(at::ones({1, 6}), ulysses));
    EXPECT_THROW(own_sequence(at::ones({1, 5}), ulysses), ConfigError);
    EXPECT_THROW(check_heads(3, 3, ulysses), ConfigError);
    EXPECT_THROW(check_heads(4, 1, ulysses), ConfigError);
    EXPECT_NO_THROW(check_heads(3, 1, ring));
    const Tensor x = at::ones({1, 4, 2, 8});
    EXPECT_THROW(
        attend_in_context(x, x, x, {.causal = true, .dropout = 0.1}, ring),
        ConfigError);
    EXPECT_THROW(
        attend_in_context(x, x, x, {.mask = at::ones({4, 4})}, ring),
        ConfigError);
    LayerContext context{.initial = std::nullopt};
    context.sequence = ring;
    AttentionOptions options{
        .hidden = 16,
        .heads = 2,
        .key_value_heads = 2,
        .head_size = 8};
    const SelfAttention attention(context, options);
    EXPECT_THROW(
        attention.forward(
            at::ones({1, 4, 16}),
            {.mask = at::ones({1, 1, 4, 4}, at::kBool)}),
        ConfigError);
    options.causal = false;
    EXPECT_THROW(SelfAttention(context, options), ConfigError);
  });
}

} // namespace
} // namespace cairn::nn::context_parallel_test
