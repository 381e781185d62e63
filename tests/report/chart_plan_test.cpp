#include "report/chart_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace cairn::report::chart_plan_test {
namespace {

using ::testing::ElementsAre;

Run run_with(const std::vector<std::pair<std::string, double>>& last) {
  Run run{.name = "run"};
  for (const auto& [name, value] : last) {
    Curve curve;
    curve.add(1, 1.0);
    curve.add(2, value);
    curve.add(3, value);
    run.log.curves.emplace_back(name, curve);
  }
  return run;
}

std::vector<std::string> titles(const std::vector<Chart>& charts) {
  std::vector<std::string> result;
  for (const Chart& chart : charts) {
    result.push_back(chart.section + ": " + chart.title);
  }
  return result;
}

TEST(ChartPlan, ShowsWhatPretrainLogs) {
  const auto charts = chart_plan({run_with(
      {{"consumed samples", 2},
       {"consumed tokens", 2},
       {"lm loss", 2},
       {"sop loss", 2},
       {"learning rate", 2},
       {"global batch size", 1},
       {"sequence length", 2},
       {"curriculum seqlen", 2},
       {"loss scale", 2},
       {"grad norm", 2},
       {"skipped iterations", 1},
       {"forward (ms)", 2},
       {"iteration (ms)", 2},
       {"samples per second", 2},
       {"tokens per second", 2},
       {"MFU", 2},
       {"time", 2},
       {"validation lm loss", 2},
       {"allocated bytes", 2},
       {"max allocated bytes", 2},
       {"something new", 2}})});
  EXPECT_THAT(
      titles(charts),
      ElementsAre(
          "Learning: Loss",
          "Learning: sop loss",
          "Learning: Learning rate",
          "Learning: Gradient norm",
          "Learning: Loss scale",
          "Speed: Tokens per second",
          "Speed: Model FLOP/s utilisation (MFU)",
          "Speed: Time of an iteration",
          "Speed: forward",
          "Memory: Allocated memory",
          "Batches: Sequence length",
          "More: something new"));
  EXPECT_THAT(charts[0].curves, ElementsAre("lm loss", "validation lm loss"));
  EXPECT_TRUE(charts[0].wide);
  EXPECT_THAT(
      charts[9].curves,
      ElementsAre("allocated bytes", "max allocated bytes"));
}

TEST(ChartPlan, PowersWhereTheRangeIsWide) {
  EXPECT_FALSE(chart_plan({run_with({{"lm loss", 4}})})[0].logarithmic);
  EXPECT_TRUE(chart_plan({run_with({{"lm loss", 40}})})[0].logarithmic);
  EXPECT_FALSE(chart_plan({run_with({{"lm loss", -40}})})[0].logarithmic);
}

TEST(ChartPlan, JoinsTheChartsOfAllRuns) {
  const auto charts = chart_plan(
      {run_with({{"lm loss", 2}}),
       run_with({{"validation lm loss", 2}, {"learning rate", 2}})});
  EXPECT_THAT(
      titles(charts),
      ElementsAre("Learning: Loss", "Learning: Learning rate"));
  EXPECT_THAT(charts[0].curves, ElementsAre("lm loss", "validation lm loss"));
}

} // namespace
} // namespace cairn::report::chart_plan_test
