#include "base/internal/progress_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::progress_line_test {
namespace {

using std::chrono::duration;
using ::testing::HasSubstr;
using ::testing::Not;

ProgressMoment halfway() {
  return {
      .label = "tokenizing",
      .unit = "B",
      .count = 1'500'000'000,
      .total = 3'000'000'000,
      .elapsed = duration<double>(3)};
}

TEST(ProgressLine, Amounts) {
  EXPECT_EQ(amount(0, "B"), "0 B");
  EXPECT_EQ(amount(999, "B"), "999 B");
  EXPECT_EQ(amount(1000, "B"), "1.00 kB");
  EXPECT_EQ(amount(12345, "B"), "12.3 kB");
  EXPECT_EQ(amount(999'600, "B"), "1.00 MB");
  EXPECT_EQ(amount(512e6, "B"), "512 MB");
  EXPECT_EQ(amount(7, "documents"), "7 documents");
  EXPECT_EQ(amount(0.25, "steps"), "0.25 steps");
  EXPECT_EQ(amount(1'234'567, "tokens"), "1.23M tokens");
  EXPECT_EQ(amount(1e30, "B"), "1000000000000 EB");
}

TEST(ProgressLine, Times) {
  EXPECT_EQ(clock_time(duration<double>(0)), "0:00");
  EXPECT_EQ(clock_time(duration<double>(59.9)), "0:59");
  EXPECT_EQ(clock_time(duration<double>(205)), "3:25");
  EXPECT_EQ(clock_time(duration<double>(3805)), "1:03:25");
  EXPECT_EQ(clock_time(duration<double>(4 * 86400 + 3780)), "4d 01:03");
  EXPECT_EQ(clock_time(duration<double>(1e300)), "999d 00:00");
  EXPECT_EQ(clock_time(duration<double>(-5)), "0:00");
}

TEST(ProgressLine, ShowsShareBarRateAndTimeLeft) {
  EXPECT_EQ(
      bar_line(halfway(), 79),
      "tokenizing   50%  [==========>          ]  1.50 GB/3.00 GB  500 MB/s  "
      "0:03 left");
}

TEST(ProgressLine, FitsAnyWidth) {
  ProgressMoment moment = halfway();
  for (std::size_t width = 0; width < 200; ++width) {
    ASSERT_LE(bar_line(moment, width).size(), width);
  }
  EXPECT_THAT(bar_line(moment, 60), Not(HasSubstr("[")));
  EXPECT_THAT(bar_line(moment, 60), HasSubstr("0:03 left"));
  EXPECT_EQ(bar_line(moment, 18), "tokenizing   50%");
  EXPECT_EQ(bar_line(moment, 10), "toke   50%");
  moment.total = 0;
  for (std::size_t width = 0; width < 200; ++width) {
    ASSERT_LE(bar_line(moment, width).size(), width);
  }
}

TEST(ProgressLine, CutsBetweenCharacters) {
  ProgressMoment moment = halfway();
  moment.label = "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4";
  EXPECT_EQ(bar_line(moment, 8), "\u00e4\u00e4   50%");
}

TEST(ProgressLine, AnUnknownTotalHasNoShare) {
  ProgressMoment moment = halfway();
  moment.total = 0;
  EXPECT_EQ(bar_line(moment, 79), "tokenizing  1.50 GB  500 MB/s");
  EXPECT_EQ(plain_line(moment), "tokenizing: 1.50 GB, 500 MB/s");
}

TEST(ProgressLine, TheFirstMomentForetellsNothing) {
  ProgressMoment moment = halfway();
  moment.count = 0;
  moment.elapsed = {};
  EXPECT_THAT(bar_line(moment, 79), HasSubstr("  0%  [>"));
  EXPECT_THAT(bar_line(moment, 79), Not(HasSubstr("left")));
}

TEST(ProgressLine, MoreThanTheTotalIsStillAll) {
  ProgressMoment moment = halfway();
  moment.count = 2 * moment.total;
  EXPECT_THAT(bar_line(moment, 79), HasSubstr("100%  [===="));
  EXPECT_THAT(bar_line(moment, 79), Not(HasSubstr(">")));
  EXPECT_THAT(bar_line(moment, 79), Not(HasSubstr("left")));
}

TEST(ProgressLine, AlmostAllIsNotAll) {
  ProgressMoment moment = halfway();
  moment.count = moment.total - 1;
  EXPECT_THAT(bar_line(moment, 79), HasSubstr(" 99%"));
}

TEST(ProgressLine, PlainAndFinal) {
  EXPECT_EQ(
      plain_line(halfway()),
      "tokenizing: 1.50 GB of 3.00 GB (50%), 500 MB/s, 0:03 left");
  EXPECT_EQ(final_line(halfway()), "tokenizing: 1.50 GB in 0:03 (500 MB/s)");
}

TEST(ProgressLine, ASecondRateIsShownBesideTheFirst) {
  ProgressMoment moment = halfway();
  moment.second_unit = "documents";
  moment.second_count = 4500;
  EXPECT_EQ(
      final_line(moment),
      "tokenizing: 1.50 GB in 0:03 (500 MB/s, 1.50k documents/s)");
  EXPECT_THAT(bar_line(moment, 120), HasSubstr("500 MB/s, 1.50k documents/s"));
}

TEST(ProgressLine, ALabelCannotDriveTheTerminal) {
  ProgressMoment moment = halfway();
  moment.label = "a\x1b[2J\r\nb\x7f";
  EXPECT_THAT(final_line(moment), ::testing::StartsWith("a?[2J??b?: "));
}

} // namespace
} // namespace cairn::progress_line_test
