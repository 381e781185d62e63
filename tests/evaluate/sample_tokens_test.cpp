#include "evaluate/finetune/sample_tokens.h"

#include "evaluate/finetune/epoch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

namespace cairn::evaluate::sample_tokens_test {
namespace {

using ::testing::ElementsAre;

struct Written {
  std::vector<std::int64_t> tokens, types, mask;
};

Written written(
    std::size_t length,
    EncodedTexts::Ids a,
    std::optional<EncodedTexts::Ids> b = std::nullopt) {
  Written result{
      std::vector<std::int64_t>(length, -1),
      std::vector<std::int64_t>(length, -1),
      std::vector<std::int64_t>(length, -1)};
  EncodedTexts texts{.a = std::move(a)};
  if (b) {
    texts.b = std::make_shared<const EncodedTexts::Ids>(std::move(*b));
  }
  write_sample(
      texts,
      {.tokenizer = nullptr, .classify = 101, .separator = 102, .pad = 9},
      {result.tokens, result.types, result.mask});
  return result;
}

TEST(SampleTokens, OfAPair) {
  const Written row = written(8, {1, 2}, {{3}});
  EXPECT_THAT(row.tokens, ElementsAre(101, 1, 2, 102, 3, 102, 9, 9));
  EXPECT_THAT(row.types, ElementsAre(0, 0, 0, 0, 1, 1, 0, 0));
  EXPECT_THAT(row.mask, ElementsAre(1, 1, 1, 1, 1, 1, 0, 0));
}

TEST(SampleTokens, OfOneText) {
  const Written row = written(6, {1, 2});
  EXPECT_THAT(row.tokens, ElementsAre(101, 1, 2, 102, 9, 9));
  EXPECT_THAT(row.types, ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(row.mask, ElementsAre(1, 1, 1, 1, 0, 0));
}

TEST(SampleTokens, ThatAreTooManyEndWithASeparator) {
  EXPECT_THAT(
      written(6, {1, 2}, {{3, 4, 5}}).tokens,
      ElementsAre(101, 1, 2, 102, 3, 102));
  const Written exact = written(6, {1, 2}, {{3}});
  EXPECT_THAT(exact.tokens, ElementsAre(101, 1, 2, 102, 3, 102));
  // Text a takes all the room: b's [SEP] is all there is of b.
  const Written long_a = written(5, {1, 2, 3, 4, 5}, {{6}});
  EXPECT_THAT(long_a.tokens, ElementsAre(101, 1, 2, 3, 102));
  EXPECT_THAT(long_a.types, ElementsAre(0, 0, 0, 0, 1));
  EXPECT_THAT(
      written(5, {1, 2, 3, 4, 5}).tokens,
      ElementsAre(101, 1, 2, 3, 102));
}

TEST(Epoch, GivesEverySampleToOneRank) {
  for (const std::int64_t ranks : {1, 2}) {
    std::multiset<std::int64_t> seen;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const EpochPlan plan{
          .samples = 21,
          .micro_batch = 4 / ranks,
          .accumulation = 2,
          .ranks = ranks,
          .rank = rank};
      ASSERT_EQ(plan.updates(), 2);
      for (std::int64_t update = 0; update < 2; ++update) {
        for (std::int64_t micro = 0; micro < 2; ++micro) {
          for (const std::int64_t place : plan.places(update, micro)) {
            seen.insert(place);
            EXPECT_EQ(place / 8, update);
          }
        }
      }
    }
    EXPECT_EQ(seen.size(), 16U); // the last 5 are dropped
    EXPECT_EQ(*seen.rbegin(), 15);
    EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 16U);
  }
}

TEST(Epoch, MayKeepALastSmallerBatch) {
  const EpochPlan plan{
      .samples = 21,
      .micro_batch = 4,
      .accumulation = 2,
      .keep_last = true};
  EXPECT_EQ(plan.updates(), 3);
  EXPECT_EQ(plan.samples_of(1), 8);
  EXPECT_EQ(plan.samples_of(2), 5);
  EXPECT_THAT(plan.places(2, 1), ElementsAre(20, 21, 22, 23));
}

TEST(Epoch, IsShuffledAsTorchDoes) {
  // torch.randperm(10, generator=torch.Generator().manual_seed(1234)) of
  // PyTorch 2.11.0.
  EXPECT_THAT(shuffled(10, 1234), ElementsAre(5, 4, 8, 2, 6, 9, 1, 7, 0, 3));
  EXPECT_NE(shuffled(10, 1234), shuffled(10, 1235));
}

} // namespace
} // namespace cairn::evaluate::sample_tokens_test
