#include "evaluate/text_windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace cairn::evaluate::text_windows_test {
namespace {

using Ids = std::vector<text::TokenId>;

/// Tokens that tell their place.
Ids counted(std::int64_t count) {
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

/// A scored token, and the first one that the model reads before it.
using Scored = std::vector<std::pair<text::TokenId, text::TokenId>>;

Scored scored_in(const std::vector<TextRow>& rows) {
  Scored scored;
  for (const TextRow& row : rows) {
    for (const text::TokenId id :
         row.tokens.last(static_cast<std::size_t>(row.scored))) {
      scored.emplace_back(id, row.tokens.front());
    }
  }
  return scored;
}

/// The windows of Megatron-DeepSpeed's zero-shot evaluation: window n begins at
/// n x step; the first is scored whole, the others at their last `step` places,
/// as far as the text goes.
Scored scored_by_megatron(
    std::int64_t tokens,
    std::int64_t length,
    std::int64_t step) {
  Scored scored;
  const std::int64_t targets = std::max<std::int64_t>(tokens - 1 - step, 0);
  const std::int64_t windows =
      std::max<std::int64_t>((targets + step - 1) / step + 1, 1);
  for (std::int64_t n = 0; n < windows; ++n) {
    const std::int64_t begin = n * step;
    for (std::int64_t place = 0; place < length; ++place) {
      const bool in_text = begin + place + 1 < tokens;
      const bool is_new = step == length || n == 0 || place >= length - step;
      if (in_text && is_new) {
        scored.emplace_back(begin + place + 1, begin);
      }
    }
  }
  return scored;
}

TEST(TextWindows, AreMegatrons) {
  for (std::int64_t tokens = 1; tokens < 60; ++tokens) {
    const Ids ids = counted(tokens);
    for (std::int64_t length = 1; length < 12; ++length) {
      for (std::int64_t step = 1; step <= length; ++step) {
        const auto rows = text_windows(ids, {.length = length, .step = step});
        EXPECT_EQ(scored_in(rows), scored_by_megatron(tokens, length, step))
            << tokens << " " << length << " " << step;
        for (const TextRow& row : rows) {
          EXPECT_LE(std::ssize(row.tokens), length + 1);
          EXPECT_GT(row.scored, 0);
        }
      }
    }
  }
}

TEST(TextWindows, FillTheLastWindow) {
  const Ids ids = counted(11);
  const auto rows =
      text_windows(ids, {.length = 4, .step = 4, .fill_last = true});
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[2].tokens.front(), 6); // reads 6 to 9, scores 9 and 10
  EXPECT_EQ(rows[2].tokens.back(), 10);
  EXPECT_EQ(rows[2].scored, 2);
  EXPECT_EQ(rows[1].tokens.front(), 4);
  EXPECT_EQ(rows[1].scored, 4);
  // A text that fits one window has only that.
  const auto one =
      text_windows(counted(3), {.length = 4, .step = 4, .fill_last = true});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].scored, 2);
}

} // namespace
} // namespace cairn::evaluate::text_windows_test
