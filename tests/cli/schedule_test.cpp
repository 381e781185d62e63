// `cairn schedule`: charts, tables and pictures of pipelines.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace cairn::testing::schedule_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Result schedule(Words words) {
  words.insert(words.begin(), {CAIRN_BINARY_DIR "/bin/cairn", "schedule"});
  return run(words);
}

TEST(ScheduleCommand, ShowsTimeAndMemoryOfEveryStage) {
  const Result result = schedule(
      {"show", "--schedule", "zb-h1", "--stages", "2", "--micro-batches", "3"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      result.out,
      "zb-h1: 2 stages, 3 micro batches; forward 1, backward 1, weights 1\n"
      "\n"
      "stage 0  F0 F1 .  B0 W0 F2 B1 W1 B2 W2\n"
      "stage 1  .  F0 B0 F1 B1 W0 F2 B2 W1 W2\n"
      "\n"
      "         bubble  live\n"
      "stage 0   10.0%     2\n"
      "stage 1   10.0%     2\n");
}

TEST(ScheduleCommand, PassesAreAsLongAsTheyTake) {
  EXPECT_THAT(
      schedule({"show", "--stages", "2", "--micro-batches", "2"}).out,
      HasSubstr("stage 0  F0 F1 .  .  B0 -- .  B1 --\n"
                "stage 1  .  F0 B0 -- F1 B1 --\n"));
  EXPECT_THAT(
      schedule({"show",
                "--schedule=interleaved",
                "--stages=2",
                "--micro-batches=2",
                "--chunks=2",
                "--costs=1,1,0"})
          .out,
      HasSubstr("stage 0  F0.0 F1.0 F0.1 F1.1 .    B0.1 .    B1.1 B0.0 B1.0\n"
                "stage 1  .    F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0\n"));
}

TEST(ScheduleCommand, ComparesAll) {
  const Result result =
      schedule({"compare", "--stages", "4", "--micro-batches", "8"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      result.out,
      "4 stages, 8 micro batches; forward 1, backward 1, weights 1\n"
      "\n"
      "schedule               time  bubble  live\n"
      "gpipe                    33   27.3%     8\n"
      "1f1b                     33   27.3%     4\n"
      "interleaved, 2 chunks  28.5   15.8%   5.5\n"
      "zb-h1                    27   11.1%     4\n");
  // A single stage has no other to take turns with.
  EXPECT_THAT(
      schedule({"compare", "--stages", "1", "--micro-batches", "8"}).out,
      Not(HasSubstr("interleaved")));
}

TEST(ScheduleCommand, DrawsAPicture) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "chart.svg").string();
  const Result result = schedule(
      {"show",
       "--schedule",
       "interleaved",
       "--stages",
       "3",
       "--micro-batches",
       "6",
       "--chunks",
       "2",
       "--svg",
       file});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("wrote " + file));
  const std::string svg = read_text(file);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  // 3 stages x 6 micro batches x 2 chunks, forward and backward.
  std::size_t bars = 0;
  const std::string mark = "stroke=\"#fff\"";
  for (auto at = svg.find(mark); at != std::string::npos;
       at = svg.find(mark, at + 1)) {
    ++bars;
  }
  EXPECT_EQ(bars, 72U);
  EXPECT_EQ(
      schedule({"show",
                "--stages",
                "2",
                "--micro-batches",
                "2",
                "--svg",
                (folder.path() / "no/such/folder.svg").string()})
          .code,
      1);
}

TEST(ScheduleCommand, RefusesWhatItCannotDraw) {
  const Words sizes{"--stages", "2", "--micro-batches", "2"};
  const auto error = [&](Words words) {
    words.insert(words.end(), sizes.begin(), sizes.end());
    const Result result = schedule(words);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.out, IsEmpty());
    return result.err;
  };
  EXPECT_THAT(
      error({"show", "--schedule", "1f1b", "--chunks", "3"}),
      HasSubstr("1f1b has no chunks"));
  EXPECT_NE(error({"show", "--schedule", "zigzag"}), "");
  EXPECT_THAT(
      error({"show", "--costs", "1,2"}),
      HasSubstr("takes three costs"));
  for (const char* costs : {"1,2,x", "1,1.5,1", "1,101,1"}) {
    EXPECT_THAT(
        error({"show", "--costs", costs}),
        HasSubstr("costs are whole numbers from 0 to 100"));
  }
  EXPECT_NE(error({"show", "--costs", "0,0,0"}), "");
  EXPECT_EQ(
      schedule({"show", "--stages", "0", "--micro-batches", "1"}).code,
      2);
  EXPECT_EQ(schedule({"show", "--stages", "2"}).code, 2);
  EXPECT_THAT(
      schedule({"compare", "--stages", "1000", "--micro-batches", "60000"}).err,
      HasSubstr("too many passes"));
  EXPECT_EQ(schedule({"draw"}).code, 2);
}

} // namespace
} // namespace cairn::testing::schedule_test
