#include "monitor/display/loss_plot.h"
#include "base/internal/terminal.h"
#include "monitor/display/loss_history.h"
#include "monitor/internal/training_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace cairn::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(LossHistory, HalvesWhenFull) {
  LossHistory history(4);
  for (std::int64_t i = 1; i <= 9; ++i) {
    history.add(i, static_cast<double>(10 * i));
  }
  const auto points = history.points();
  ASSERT_EQ(points.size(), 3U); // of 4, 4 and 1
  EXPECT_EQ(points[0].step, 2.5);
  EXPECT_EQ(points[0].loss, 25);
  EXPECT_EQ(points[1].loss, 65);
  EXPECT_EQ(points[2].step, 9);
}

TEST(LossHistory, StaysSmallAndKeepsTheMean) {
  for (const std::size_t capacity : {2UL, 3UL, 7UL, 1024UL}) {
    LossHistory history(capacity);
    for (std::int64_t i = 0; i < 100'000; ++i) {
      history.add(i, 1.5);
    }
    const auto points = history.points();
    EXPECT_LE(points.size(), capacity);
    EXPECT_GE(points.size(), capacity / 2);
    for (std::size_t i = 0; i < points.size(); ++i) {
      EXPECT_EQ(points[i].loss, 1.5);
      EXPECT_TRUE(i == 0 || points[i].step > points[i - 1].step);
    }
  }
}

TEST(LossHistory, LeavesOutWhatIsNotFinite) {
  LossHistory history;
  history.add(1, std::numeric_limits<double>::quiet_NaN());
  history.add(2, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(history.empty());
}

std::vector<LossHistory::Point> falling(int count) {
  std::vector<LossHistory::Point> points;
  for (int i = 0; i < count; ++i) {
    points.push_back({1.0 + i, 2.0 + 8.0 * std::exp(-0.1 * i)});
  }
  return points;
}

TEST(LossPlot, IsACurveInItsFrame) {
  const std::vector<LossHistory::Point> line = {{1, 4.0}, {9, 2.0}};
  EXPECT_THAT(
      loss_plot(line, std::nullopt, {.columns = 26, .rows = 4}),
      ElementsAre(
          "   4.00 ┤⠉⠒⠤⣀            ",
          "        │    ⠉⠒⠤⣀        ",
          "        │        ⠉⠒⠤⣀    ",
          "   2.00 ┤            ⠉⠒⠤⣀",
          "        └────────────────",
          "         1              9"));
}

TEST(LossPlot, FitsAnyWidth) {
  const auto points = falling(300);
  for (std::size_t columns = 1; columns < 200; ++columns) {
    const auto lines = loss_plot(
        points,
        LossTarget{1.5, "entropy of the corpus"},
        {.columns = columns, .rows = 5});
    EXPECT_EQ(lines.empty(), columns < 24);
    for (const std::string& line : lines) {
      EXPECT_LE(text_columns(line), columns) << line;
    }
  }
}

TEST(LossPlot, NeedsSomethingToDraw) {
  const PlotSize size{.columns = 80, .rows = 8};
  EXPECT_THAT(loss_plot({}, std::nullopt, size), IsEmpty());
  EXPECT_THAT(loss_plot(falling(1), std::nullopt, size), IsEmpty());
  EXPECT_THAT(loss_plot(falling(9), std::nullopt, {80, 1}), IsEmpty());
  EXPECT_EQ(loss_spark({}, 8), "");
  // A loss that does not move has no range.
  const std::vector<LossHistory::Point> flat = {{1, 3.0}, {2, 3.0}, {3, 3.0}};
  EXPECT_EQ(loss_plot(flat, std::nullopt, size).size(), 10U);
}

TEST(LossPlot, ShowsTheTarget) {
  const auto lines = loss_plot(
      falling(50),
      LossTarget{1.5, "entropy"},
      {.columns = 40, .rows = 4});
  EXPECT_THAT(lines[3], HasSubstr("1.50 ┤"));
  EXPECT_THAT(lines[3], HasSubstr("┤┄┄ entropy ┄"));
}

TEST(LossPlot, TheFirstFallDoesNotFlattenTheRest) {
  std::vector<LossHistory::Point> points;
  for (int i = 0; i < 200; ++i) {
    points.push_back({1.0 + i, i < 5 ? 100.0 : 3.0 - 0.005 * i});
  }
  const auto lines =
      loss_plot(points, std::nullopt, {.columns = 60, .rows = 6});
  EXPECT_THAT(lines[0], HasSubstr("2.9"));
}

TEST(LossPlot, ColoursAreFewAndEnd) {
  const auto lines =
      loss_plot(falling(50), std::nullopt, {.columns = 60}, Colour::ansi);
  for (const std::string& line : lines) {
    EXPECT_EQ(line.substr(line.size() - 4), "\x1b[0m");
  }
  for (const std::string& line : loss_plot(falling(50), {}, {.columns = 60})) {
    EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  }
}

TEST(LossSpark, IsOneLine) {
  const std::vector<LossHistory::Point> line = {{1, 8.0}, {9, 1.0}};
  EXPECT_EQ(loss_spark(line, 8), "█▇▆▅▄▃▂▁");
}

TrainingMoment some_moment() {
  return {
      .iteration = 240,
      .iterations = 1000,
      .loss = 2.91364,
      .validation_loss = 3.0,
      .learning_rate = 3e-4,
      .tokens_per_second = 12'400,
      .utilisation = 0.41,
      .seconds_left = 201};
}

TEST(StatusLine, HasEverythingWhereThereIsRoom) {
  EXPECT_EQ(
      status_line(some_moment(), 110),
      "  240/1000 ━━━━━────────────────  24%  loss 2.914  valid 3.000  "
      "lr 3.0e-04  12.4k tokens/s  MFU 41%  3:21 left");
}

TEST(StatusLine, GivesWayInOrder) {
  const auto line = [](std::size_t columns) {
    return status_line(some_moment(), columns);
  };
  EXPECT_EQ(
      line(78),
      "  240/1000 ━━╸────────  24%  loss 2.914  lr 3.0e-04  12.4k tokens/s  "
      "3:21 left");
  EXPECT_EQ(line(54), "  240/1000  24%  loss 2.914  12.4k tokens/s  3:21 left");
  EXPECT_EQ(line(38), "  240/1000  24%  loss 2.914  3:21 left");
  EXPECT_EQ(line(16), "  240/1000  24%");
  EXPECT_EQ(line(5), "  240");
  for (std::size_t columns = 0; columns < 160; ++columns) {
    EXPECT_LE(text_columns(line(columns)), columns) << line(columns);
  }
}

TEST(TrainingView, PlotsOrSparks) {
  TrainingView view(LossTarget{1.2, "entropy"});
  TrainingMoment moment = some_moment();
  for (std::int64_t i = 1; i <= 240; ++i) {
    moment.iteration = i;
    moment.loss = 1.5 + 5 * std::exp(-0.02 * static_cast<double>(i));
    view.add(moment);
  }
  const auto large = view.lines({.columns = 100, .rows = 40}, Colour::none);
  ASSERT_EQ(large.size(), 14U); // ten rows, axis, steps, a blank line, status
  EXPECT_THAT(large.back(), HasSubstr("240/1000"));
  const auto medium = view.lines({.columns = 100, .rows = 24}, Colour::none);
  EXPECT_EQ(medium.size(), 12U);
  const auto small = view.lines({.columns = 100, .rows = 10}, Colour::none);
  ASSERT_EQ(small.size(), 1U);
  EXPECT_THAT(small[0], HasSubstr("▁"));
  for (std::size_t columns = 1; columns < 130; ++columns) {
    for (const std::size_t rows : {0UL, 1UL, 10UL, 24UL}) {
      for (const std::string& line :
           view.lines({.columns = columns, .rows = rows}, Colour::none)) {
        EXPECT_LE(text_columns(line), columns) << line;
      }
    }
  }
}

} // namespace
} // namespace cairn::monitor
