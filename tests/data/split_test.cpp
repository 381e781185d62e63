#include <cairn/data/data_selection.h>

#include "data/gpt_golden.h"

#include <cairn/base/error.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::data::split_test {
namespace {

using nlohmann::json;

TEST(SplitShares, RangesOfEveryGoldenCase) {
  for (const json& test : gpt_golden_cases("gpt.json")) {
    const auto shares = SplitShares::parse(test.at("split").get<std::string>());
    for (const Split split : all_splits) {
      const json& expected = test.at("split_matrix")[index_of(split)];
      ASSERT_EQ(shares.range(split).has_value(), !expected.is_null());
      if (!expected.is_null()) {
        EXPECT_EQ(shares.range(split)->begin, expected[0].get<double>());
        EXPECT_EQ(shares.range(split)->end, expected[1].get<double>());
      }
    }
  }
}

TEST(SplitShares, MissingSharesAreZero) {
  const auto shares = SplitShares::parse("1");
  EXPECT_EQ(shares.elements(Split::train, 7), (ElementRange{0, 7}));
  EXPECT_FALSE(shares.range(Split::valid));
  EXPECT_FALSE(shares.elements(Split::test, 7));
}

TEST(SplitShares, TiesGoToTheEvenNumber) {
  const auto shares = SplitShares::parse("1,1,2");
  // round(0.5) = 0, round(2.5) = 2, round(1.5) = 2
  EXPECT_EQ(shares.elements(Split::train, 2), (ElementRange{0, 0}));
  EXPECT_EQ(shares.elements(Split::train, 10), (ElementRange{0, 2}));
  EXPECT_EQ(shares.elements(Split::train, 6), (ElementRange{0, 2}));
}

TEST(SplitShares, RefusesWhatIsNoSplit) {
  for (const std::string text :
       {"",
        " ",
        ",",
        "a",
        "1,",
        "1,,2",
        "1;2",
        "1,2,3,4",
        "-1,2,3",
        "0,0,0",
        "nan,1,1",
        "inf",
        "1e3,1",
        "0x10",
        "1,2 3"}) {
    EXPECT_THROW(SplitShares::parse(text), ConfigError) << text;
  }
}

// The shares of 70,15,15 round to 21, 4 and 4 of 30.
TEST(SplitShares, MegatronDeepSpeedLetsTrainingMakeUpForTheRest) {
  const auto range = [](const char* text, Split split, std::size_t count) {
    return SplitShares::parse(text).deepspeed_elements(split, count);
  };
  EXPECT_EQ(range("70,15,15", Split::train, 30), (ElementRange{0, 22}));
  EXPECT_EQ(range("70,15,15", Split::valid, 30), (ElementRange{22, 26}));
  EXPECT_EQ(range("70,15,15", Split::test, 30), (ElementRange{26, 30}));
  EXPECT_EQ(
      SplitShares::parse("70,15,15").elements(Split::train, 30),
      (ElementRange{0, 21}));
  // 4 and 4 of 7: Megatron-DeepSpeed would begin at document -1.
  EXPECT_EQ(range("0,1,1", Split::valid, 7), (ElementRange{0, 3}));
  EXPECT_EQ(range("0,1,1", Split::train, 7), std::nullopt);
  EXPECT_EQ(
      SplitShares::only(Split::valid).deepspeed_elements(Split::valid, 7),
      (ElementRange{0, 7}));
}

} // namespace
} // namespace cairn::data::split_test
