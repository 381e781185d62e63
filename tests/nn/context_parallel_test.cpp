#include "nn/attention/partial_attention.h"
#include "nn/attention/ring_pass.h"
#include "nn/attention/sequence_halves.h"
#include "nn/context_parity.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <cairn/nn/attention.h>
#include <cairn/nn/context_parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <chrono>
#include <span>
#include <thread>
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

/// Over all steps, a token sees every token of its document before it, once.
TEST(SequenceHalves, LetTokensSeeTheirDocuments) {
  constexpr std::int64_t sequence = 24;
  // The first samples are alike.
  const std::vector<std::vector<std::int64_t>> documents{
      {0, 3, 4, 17},
      {0, 3, 4, 17},
      {0},
      {0, 12},
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 23}};
  const auto samples = static_cast<std::int64_t>(documents.size());
  Tensor begins = at::zeros({samples, sequence}, at::kLong);
  for (std::int64_t b = 0; b < samples; ++b) {
    for (const std::int64_t begin : documents[static_cast<std::size_t>(b)]) {
      begins[b].narrow(0, begin, sequence - begin).fill_(begin);
    }
  }
  for (const int ranks : {1, 2, 3, 4}) {
    const std::int64_t own = sequence / ranks;
    Tensor seen = at::zeros({samples, sequence, sequence}, at::kInt);
    std::size_t parts_of_others = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const RingPlace here{rank, ranks, own};
      Tensor positions = at::empty({own}, at::kLong);
      for (std::int64_t i = 0; i < own; ++i) {
        positions[i] = here.position(i);
      }
      const Tensor first_seen = begins.index_select(1, positions).contiguous();
      for (int owner = 0; owner < ranks; ++owner) {
        const RingPlace there{owner, ranks, own};
        const RingStep step = ring_step(own, rank, owner);
        const auto parts = document_parts(
            step,
            here,
            there,
            std::span(
                first_seen.const_data_ptr<std::int64_t>(),
                static_cast<std::size_t>(first_seen.numel())));
        parts_of_others += owner == rank ? 0 : parts.size();
        for (const RingPart& part : parts) {
          for (std::int64_t q = 0; q < part.queries.size; ++q) {
            for (std::int64_t k = 0; k < part.keys.size; ++k) {
              if (!part.causal || k <= q) {
                seen.narrow(0, part.samples.begin, part.samples.size)
                    .select(1, here.position(part.queries.begin + q))
                    .select(1, there.position(part.keys.begin + k))
                    .add_(1);
              }
            }
          }
        }
      }
    }
    const Tensor keys = at::arange(sequence, at::kLong);
    EXPECT_TRUE(at::equal(
        seen,
        keys.ge(begins.unsqueeze(2))
            .logical_and(keys.le(keys.unsqueeze(1)))
            .to(at::kInt)))
        << ranks;
    // A rectangle at most for each step, and the first two samples share it.
    EXPECT_LE(
        parts_of_others,
        static_cast<std::size_t>(ranks * (ranks - 1) * (samples - 1)));
  }
}

TEST(SequenceHalves, KnowPositions) {
  const RingPlace place{1, 3, 8}; // positions 4 to 7 and 16 to 19 of 24
  EXPECT_EQ(place.position(3), 7);
  EXPECT_EQ(place.position(4), 16);
  using Ranges = std::vector<TokenRange>;
  EXPECT_EQ(place.positions({0, 8}), (Ranges{{4, 4}, {16, 4}}));
  EXPECT_EQ(place.positions({1, 2}), (Ranges{{5, 2}}));
  EXPECT_EQ(place.positions({4, 4}), (Ranges{{16, 4}}));
  EXPECT_EQ(place.positions({3, 3}), (Ranges{{7, 1}, {16, 2}}));
}

/// Nobody waits: what is sent arrives while the ranks do something else.
TEST(RingPass, GoesOnBesideOtherWork) {
  for (const bool shared_memory : {true, false}) {
    for (const int ranks : {2, 3}) {
      testing::run_ranks(
          {.ranks = ranks, .shared_memory = shared_memory},
          [&](const distributed::World& world) {
            const ProcessGroup& group = world.group();
            const auto mine = [&](int rank) {
              return at::full({2, 100'000}, rank + 1, at::kFloat);
            };
            RingPass first(mine(group.rank()), group);
            RingPass second(mine(group.rank()) * 10, group);
            const auto end =
                std::chrono::steady_clock::now() + std::chrono::seconds(15);
            while (!(first.done() && second.done()) &&
                   std::chrono::steady_clock::now() < end) {
              std::this_thread::yield();
            }
            EXPECT_TRUE(first.done() && second.done());
            const Tensor before = mine((group.rank() + ranks - 1) % ranks);
            EXPECT_TRUE(at::equal(first.wait(), before));
            EXPECT_TRUE(at::equal(second.wait(), before * 10));
            const auto records = world.records();
            ASSERT_GE(records.size(), 2);
            EXPECT_EQ(records.back().operation, "all_to_all");
            EXPECT_EQ(records.back().bytes, 800'000);
          });
    }
  }
}

/// Keys and values travel with the heads that they have, forward and back.
TEST(ContextParallel, SendsSharedHeadsOnce) {
  testing::run_ranks({.ranks = 3}, [](const distributed::World& world) {
    const auto make = [](std::int64_t heads) {
      return at::randn({2, 4, heads, 8}).requires_grad_();
    };
    const std::size_t before = world.records().size();
    attend_in_context(
        make(6),
        make(2),
        make(2),
        {.causal = true},
        {world.group(), ContextKind::ring})
        .sum()
        .backward();
    const auto records = world.records();
    // Forward passes keys and values on twice, backward as well, and their
    // gradients three times.
    ASSERT_EQ(records.size() - before, 7);
    for (std::size_t i = before; i < records.size(); ++i) {
      EXPECT_EQ(records[i].operation, "all_to_all");
      EXPECT_EQ(records[i].bytes, 2 * 2 * 4 * 2 * 8 * sizeof(float));
    }
  });
}

TEST(ContextParallel, KeepsDocumentsApartAndDropsWeights) {
  for (const int ranks : {2, 4}) {
    testing::run_ranks(ranks, [&](const ProcessGroup& group) {
      for (const ContextKind kind : {ContextKind::ring, ContextKind::ulysses}) {
        for (const auto type : {at::kFloat, at::kBFloat16}) {
          SCOPED_TRACE(
              ::testing::Message()
              << (kind == ContextKind::ring ? "ring" : "ulysses") << type);
          compare({ranks, kind, 8, 4, type, 0, true}, group);
          compare({ranks, kind, 8, 4, type, 0.3}, group);
          compare({ranks, kind, 8, 8, type, 0.1, true}, group);
        }
      }
    });
  }
  testing::run_ranks(3, [](const ProcessGroup& group) {
    compare({3, ContextKind::ring, 3, 1, at::kFloat, 0.2, true}, group);
  });
}

/// More ranks than heads of keys: several ranks get the same head.
TEST(ContextParallel, UlyssesWithFewHeadsOfKeys) {
  testing::run_ranks(4, [](const ProcessGroup& group) {
    compare({4, ContextKind::ulysses, 8, 2}, group);
    compare({4, ContextKind::ulysses, 8, 1, at::kFloat, 0.2, true}, group);
    compare({4, ContextKind::ulysses, 4, 1, at::kBFloat16}, group);
  });
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
    EXPECT_THROW(check_heads(12, 3, ulysses), ConfigError);
    EXPECT_NO_THROW(check_heads(4, 1, ulysses));
    EXPECT_NO_THROW(check_heads(3, 1, ring));
    const Tensor x = at::ones({1, 4, 2, 8});
    EXPECT_THROW(
        attend_in_context(x, x, x, {.mask = at::ones({4, 4})}, ring),
        UsageError);
    const Tensor of_whole = at::zeros({1, 8}, at::kLong);
    EXPECT_THROW(
        attend_in_context(x, x, x, {.first_seen = of_whole}, ring),
        UsageError);
    EXPECT_THROW(attend(x, x, x, {.first_seen = of_whole}), UsageError);
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
        UsageError);
    options.causal = false;
    EXPECT_THROW(SelfAttention(context, options), ConfigError);
  });
}

} // namespace
} // namespace cairn::nn::context_parallel_test
