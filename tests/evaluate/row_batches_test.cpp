#include "evaluate/row_batches.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace cairn::evaluate::row_batches_test {
namespace {

TEST(RowBatches, HaveEveryRowOnce) {
  std::vector<std::vector<text::TokenId>> tokens;
  std::vector<TextRow> rows;
  for (std::size_t i = 0; i < 37; ++i) {
    tokens.emplace_back(2 + i * 7 % 50);
  }
  for (const auto& each : tokens) {
    rows.push_back({each, 1});
  }
  for (std::int64_t ranks = 1; ranks < 5; ++ranks) {
    for (std::int64_t at_once = 1; at_once < 4; ++at_once) {
      const BatchShape shape{
          .rows = 3,
          .ranks = ranks,
          .at_once = at_once,
          .longest = 60};
      std::vector<int> seen(rows.size());
      std::int64_t before = 60;
      for (const RowBatch& batch : row_batches(rows, shape)) {
        EXPECT_LE(batch.length, before); // the longest first
        before = batch.length;
        EXPECT_LE(batch.micro_batches, at_once);
        EXPECT_GT(batch.micro_batches, 0);
        for (std::int64_t m = 0; m < batch.micro_batches; ++m) {
          for (std::int64_t rank = 0; rank < ranks; ++rank) {
            const auto mine = micro_batch_rows(batch, shape, m, rank);
            EXPECT_LE(mine.size(), 3U);
            for (const std::size_t row : mine) {
              ++seen[row];
              EXPECT_LE(std::ssize(rows[row].tokens) - 1, batch.length);
            }
          }
        }
      }
      EXPECT_EQ(seen, std::vector<int>(rows.size(), 1)) << ranks;
    }
  }
}

TEST(RowBatches, NeverReadMoreThanTheModelCan) {
  const std::vector<text::TokenId> tokens(62);
  const std::vector<TextRow> rows{{tokens, 1}};
  EXPECT_EQ(row_batches(rows, {.longest = 61})[0].length, 61);
  EXPECT_EQ(row_batches(rows, {.longest = 100})[0].length, 64);
  EXPECT_TRUE(row_batches({}, {}).empty());
}

TEST(RowBatches, LongAndShortTextsOfLongRopeDoNotMix) {
  std::vector<std::vector<text::TokenId>> tokens;
  std::vector<TextRow> rows;
  for (const std::size_t length : {30, 22, 21, 20, 50, 5, 40}) {
    tokens.emplace_back(length);
  }
  for (const auto& each : tokens) {
    rows.push_back({each, 1});
  }
  const auto batches = row_batches(
      rows,
      {.rows = 2, .at_once = 4, .longest = 60, .longest_short = 20});
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].rows, (std::vector<std::size_t>{4, 6, 0, 1}));
  EXPECT_EQ(batches[0].length, 60);
  EXPECT_EQ(batches[0].micro_batches, 2);
  EXPECT_EQ(batches[1].rows, (std::vector<std::size_t>{2, 3, 5}));
  EXPECT_EQ(batches[1].length, 20) << "not filled up to a long text";
}

} // namespace
} // namespace cairn::evaluate::row_batches_test
