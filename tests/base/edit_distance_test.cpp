#include "base/internal/edit_distance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

namespace cairn::edit_distance_test {
namespace {

constexpr std::array<std::string_view, 8> keys = {
    "stage",
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "fp16",
    "bf16",
    "lr",
    "micro-batch-size"};

TEST(EditDistance, CountsEachKindOfEditOnce) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", "abxc"), 1);
  EXPECT_EQ(edit_distance("abc", "ac"), 1);
  EXPECT_EQ(edit_distance("abc", "abd"), 1);
  EXPECT_EQ(edit_distance("abc", "acb"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("ca", "abc"), 3); // 2 if edited parts might overlap
}

TEST(EditDistance, IsSymmetricAndBounded) {
  std::mt19937 random(1);
  const auto some_name = [&] {
    std::string name(random() % 12, ' ');
    for (char& c : name) {
      c = static_cast<char>('a' + random() % 3);
    }
    return name;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string a = some_name();
    const std::string b = some_name();
    const std::size_t distance = edit_distance(a, b);
    ASSERT_EQ(distance, edit_distance(b, a)) << a << ' ' << b;
    ASSERT_EQ(distance == 0, a == b) << a << ' ' << b;
    ASSERT_LE(distance, std::max(a.size(), b.size()));
    ASSERT_GE(
        distance,
        std::max(a.size(), b.size()) - std::min(a.size(), b.size()));
  }
}

TEST(Nearest, FindsTheNameThatWasMeant) {
  EXPECT_EQ(nearest("stge", keys), "stage");
  EXPECT_EQ(nearest("satge", keys), "stage");
  EXPECT_EQ(nearest("train_bacth_size", keys), "train_batch_size");
  EXPECT_EQ(
      nearest("train_micro_batch_size", keys),
      "train_micro_batch_size_per_gpu");
  EXPECT_EQ(nearest("fp61", keys), "fp16");
}

TEST(Nearest, FindsTheNameThatWasBegun) {
  EXPECT_EQ(nearest("gradient", keys), "gradient_accumulation_steps");
  EXPECT_EQ(nearest("gradient_x", keys), std::nullopt);
  EXPECT_EQ(nearest("trai", keys), "train_batch_size");
  EXPECT_EQ(nearest("tra", keys), std::nullopt);
}

TEST(Nearest, CaseAndDashesDoNotCount) {
  EXPECT_EQ(nearest("Train-Batch-Size", keys), "train_batch_size");
  EXPECT_EQ(nearest("MICRO_BATCH_SIZE", keys), "micro-batch-size");
}

TEST(Nearest, NothingCloseGivesNone) {
  EXPECT_EQ(nearest("tokenizer", keys), std::nullopt);
  EXPECT_EQ(nearest("xy", keys), std::nullopt);
  EXPECT_EQ(nearest("", keys), std::nullopt);
  EXPECT_EQ(nearest("stage", {}), std::nullopt);
}

TEST(Nearest, TakesTheFirstOfEquals) {
  const std::array<std::string_view, 2> pair = {"fp16", "bf16"};
  EXPECT_EQ(nearest("tf16", pair), "bf16");
  EXPECT_EQ(nearest("x16", pair), std::nullopt);
  const std::array<std::string_view, 2> twins = {"abcd1", "abcd2"};
  EXPECT_EQ(nearest("abcd3", twins), "abcd1");
}

TEST(Nearest, EndlessNamesCostNothing) {
  const std::string endless(100 << 20, 'a');
  EXPECT_EQ(nearest(endless, keys), std::nullopt);
}

} // namespace
} // namespace cairn::edit_distance_test
