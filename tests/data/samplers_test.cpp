#include "data/samples/index_permutation.h"

#include <cairn/data/samplers.h>

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace cairn::data::samplers_test {
namespace {

using ::testing::ElementsAre;
using Indices = std::vector<std::int64_t>;

TEST(IndexPermutation, HasEveryNumberOnce) {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 17, 256, 1000, 65537}) {
    const IndexPermutation order(7, 3, size);
    std::vector<bool> seen(size, false);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t value = order(i);
      ASSERT_LT(value, size);
      ASSERT_FALSE(seen[value]) << size << ' ' << i;
      seen[value] = true;
    }
  }
}

TEST(IndexPermutation, DependsOnSeedAndEpochAndNothingElse) {
  const auto first = [](std::uint64_t seed, std::uint64_t epoch) {
    const IndexPermutation order(seed, epoch, 1'000'000'007);
    std::vector<std::uint64_t> values;
    for (std::uint64_t i = 0; i < 4; ++i) {
      values.push_back(order(i));
    }
    return values;
  };
  EXPECT_NE(first(1, 0), first(2, 0));
  EXPECT_NE(first(1, 0), first(1, 1));
  EXPECT_NE(first(1, 1), first(2, 0));
  // Checkpoints depend on these values: they must never change.
  EXPECT_THAT(
      first(1234, 5),
      ElementsAre(589393312, 697439887, 786836866, 72369349));
}

TEST(IndexPermutation, EveryPlaceIsAsLikelyForEveryNumber) {
  constexpr std::uint64_t size = 10;
  constexpr int trials = 20000;
  std::vector<int> counts(size * size, 0);
  for (int seed = 0; seed < trials; ++seed) {
    const IndexPermutation order(static_cast<std::uint64_t>(seed), 0, size);
    for (std::uint64_t i = 0; i < size; ++i) {
      ++counts[i * size + order(i)];
    }
  }
  // Chi-squared with 81 degrees of freedom: 140 is beyond one in 10,000.
  const double expected = trials / static_cast<double>(size);
  double chi_squared = 0.0;
  for (const int count : counts) {
    chi_squared += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_squared, 140.0);
}

/// The batches of all ranks put together, step by step.
template <typename Sampler>
Indices global_order(typename Sampler::Options options, int steps) {
  std::vector<Sampler> ranks;
  for (std::int64_t rank = 0; rank < options.parallel.size; ++rank) {
    options.parallel.rank = rank;
    ranks.emplace_back(options);
  }
  Indices order;
  for (int step = 0; step < steps; ++step) {
    for (Sampler& rank : ranks) {
      if (const auto batch = rank.next()) {
        order.insert(order.end(), batch->indices.begin(), batch->indices.end());
      }
    }
  }
  return order;
}

TEST(SequentialSampler, RanksTakeTurnsByMicroBatches) {
  SequentialSampler sampler(
      {.total_samples = 14,
       .consumed_samples = 1,
       .micro_batch_size = 2,
       .parallel = {.rank = 1, .size = 3}});
  EXPECT_EQ(sampler.next(), (IndexBatch{{3, 4}, 7}));
  EXPECT_EQ(sampler.next(), (IndexBatch{{9, 10}, 13}));
  EXPECT_EQ(sampler.next(), std::nullopt);
}

TEST(SequentialSampler, WhatIsLeftAtTheEnd) {
  const auto last = [](std::int64_t rank) {
    SequentialSampler sampler(
        {.total_samples = 9,
         .consumed_samples = 6,
         .micro_batch_size = 2,
         .parallel = {.rank = rank, .size = 3},
         .drop_last = false});
    return sampler.next();
  };
  EXPECT_EQ(last(0), (IndexBatch{{6, 7}, 9}));
  EXPECT_EQ(last(1), (IndexBatch{{8}, 9}));
  EXPECT_EQ(last(2), (IndexBatch{{}, 9}));
}

TEST(SequentialSampler, RefusesWhatCannotBe) {
  EXPECT_THROW(SequentialSampler({.total_samples = 0}), DataError);
  EXPECT_THROW(
      SequentialSampler({.total_samples = 4, .consumed_samples = 4}),
      ConfigError);
  EXPECT_THROW(
      SequentialSampler({.total_samples = 4, .micro_batch_size = 0}),
      UsageError);
  EXPECT_THROW(
      SequentialSampler({.total_samples = 4, .parallel = {2, 2}}),
      UsageError);
}

TEST(Samplers, GoOnAtTheSampleWithOtherRanksAndBatches) {
  const auto check = [](auto tag, const char* name) {
    using Sampler = typename decltype(tag)::type;
    typename Sampler::Options whole{.total_samples = 50};
    whole.micro_batch_size = 2;
    whole.parallel.size = 4;
    const Indices expected = global_order<Sampler>(whole, 6); // 48
    whole.micro_batch_size = 1;
    whole.parallel.size = 8;
    Indices order = global_order<Sampler>(whole, 2); // 16
    whole.consumed_samples = 16;
    whole.micro_batch_size = 4;
    whole.parallel.size = 2;
    const Indices rest = global_order<Sampler>(whole, 4); // 32
    order.insert(order.end(), rest.begin(), rest.end());
    EXPECT_EQ(order, expected) << name;
  };
  check(std::type_identity<SequentialSampler>{}, "sequential");
  check(std::type_identity<CyclicSampler>{}, "cyclic");
}

TEST(CyclicSampler, PassesFollowWithoutAGap) {
  const Indices order = global_order<CyclicSampler>(
      {.total_samples = 10, .micro_batch_size = 3, .parallel = {0, 2}},
      5);
  ASSERT_EQ(order.size(), 30);
  Indices all(10);
  std::iota(all.begin(), all.end(), 0);
  for (auto pass = order.begin(); pass != order.end(); pass += 10) {
    EXPECT_TRUE(std::is_permutation(pass, pass + 10, all.begin()));
  }
  EXPECT_FALSE(std::equal(order.begin(), order.begin() + 10, &order[10]));
}

TEST(CyclicSampler, NumbersPasses) {
  CyclicSampler plain({.total_samples = 10, .consumed_samples = 20});
  CyclicSampler numbered(
      {.total_samples = 10, .consumed_samples = 20, .number_passes = true});
  EXPECT_EQ(plain.next()->indices[0] + 20, numbered.next()->indices[0]);
}

TEST(CyclicSampler, ShardsKeepToTheirPart) {
  for (const std::int64_t rank : {0, 1}) {
    CyclicSampler sampler(
        {.total_samples = 21,
         .micro_batch_size = 2,
         .parallel = {rank, 2},
         .sharding = true});
    Indices pass;
    for (int i = 0; i < 5; ++i) {
      const auto batch = sampler.next();
      EXPECT_EQ(batch->consumed_samples, 4 * (i + 1));
      pass.insert(pass.end(), batch->indices.begin(), batch->indices.end());
    }
    Indices part(10);
    std::iota(part.begin(), part.end(), 10 * rank);
    EXPECT_TRUE(std::is_permutation(pass.begin(), pass.end(), part.begin()));
    CyclicSampler resumed(
        {.total_samples = 21,
         .consumed_samples = 12,
         .micro_batch_size = 2,
         .parallel = {rank, 2},
         .sharding = true});
    EXPECT_EQ(resumed.next()->indices, (Indices{pass[6], pass[7]}));
  }
  EXPECT_THROW(
      CyclicSampler(
          {.total_samples = 21,
           .consumed_samples = 3,
           .micro_batch_size = 2,
           .parallel = {0, 2},
           .sharding = true}),
      ConfigError);
}

Indices epoch_of(DistributedSampler sampler) {
  Indices all;
  while (const auto batch = sampler.next()) {
    all.insert(all.end(), batch->indices.begin(), batch->indices.end());
  }
  return all;
}

// Results of torch.utils.data.DistributedSampler(range(10), 4, rank,
// shuffle=False).
TEST(DistributedSampler, InOrderIsTorchs) {
  const auto rank = [](std::int64_t r, std::int64_t total, bool drop) {
    return epoch_of(DistributedSampler(
        {.total_samples = total,
         .parallel = {r, 4},
         .shuffle = false,
         .drop_last = drop}));
  };
  EXPECT_EQ(rank(0, 10, false), (Indices{0, 4, 8}));
  EXPECT_EQ(rank(1, 10, false), (Indices{1, 5, 9}));
  EXPECT_EQ(rank(2, 10, false), (Indices{2, 6, 0}));
  EXPECT_EQ(rank(3, 10, false), (Indices{3, 7, 1}));
  EXPECT_EQ(rank(3, 10, true), (Indices{3, 7}));
  EXPECT_EQ(rank(3, 8, true), (Indices{3, 7}));
  EXPECT_EQ(rank(0, 1, false), (Indices{0}));
  EXPECT_EQ(rank(3, 1, false), (Indices{0}));
}

TEST(DistributedSampler, ShuffledRanksShareTheData) {
  Indices all;
  for (const std::int64_t rank : {0, 1, 2}) {
    DistributedSampler sampler(
        {.total_samples = 12, .batch_size = 3, .parallel = {rank, 3}});
    EXPECT_EQ(sampler.size(), 4);
    EXPECT_EQ(sampler.batches(), 2);
    const Indices first = epoch_of(sampler);
    all.insert(all.end(), first.begin(), first.end());
    sampler.set_epoch(1);
    EXPECT_NE(epoch_of(sampler), first);
    sampler.set_epoch(0, 9);
    EXPECT_EQ(epoch_of(sampler), (Indices{first[3]}));
  }
  std::sort(all.begin(), all.end());
  Indices expected(12);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(DistributedSampler, DropsABatchThatIsNotFull) {
  DistributedSampler sampler(
      {.total_samples = 10, .batch_size = 4, .drop_last_batch = true});
  EXPECT_EQ(sampler.batches(), 2);
  EXPECT_EQ(epoch_of(sampler).size(), 8);
}

} // namespace
} // namespace cairn::data::samplers_test
