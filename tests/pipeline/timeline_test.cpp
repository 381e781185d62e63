#include "pipeline/internal/timeline.h"
#include "pipeline/check.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

// The cost table of schedules, computed from their instructions, against the
// known formulas.

namespace cairn::pipeline::timeline_test {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::Each;

constexpr double close = 1e-9;

struct Size {
  int stages = 1;
  int micro_batches = 1;
};
constexpr Size sizes[] = {{2, 4}, {4, 4}, {4, 8}, {8, 16}, {8, 64}, {16, 48}};

constexpr PassCosts costs[] = {
    {},
    {.forward = 1, .backward = 1, .weights = 0.5},
    {.forward = 2, .backward = 3, .weights = 2},
    {.forward = 1.5, .backward = 1, .weights = 1}};

/// The time of one micro batch on one stage.
double work(const PassCosts& c) {
  return c.forward + c.backward + c.weights;
}

std::string name_of(const Size& size, const PassCosts& c) {
  return std::to_string(size.stages) + " stages, " +
      std::to_string(size.micro_batches) + " micro batches, " +
      std::to_string(c.forward) + " " + std::to_string(c.backward) + " " +
      std::to_string(c.weights);
}

TEST(Timeline, GpipeAnd1F1BIdleForOneWayThroughThePipeline) {
  for (const Size& size : sizes) {
    for (const PassCosts& c : costs) {
      SCOPED_TRACE(name_of(size, c));
      const auto [p, m] = size;
      const double bubble = (p - 1.0) / (m + p - 1.0);
      const ScheduleCost all = cost_of(gpipe(p, m), c);
      EXPECT_NEAR(all.length, (m + p - 1) * work(c), close);
      EXPECT_THAT(all.bubble, Each(DoubleNear(bubble, close)));
      EXPECT_THAT(all.live, Each(DoubleEq(m)));
      const ScheduleCost few = cost_of(one_forward_one_backward(p, m), c);
      EXPECT_NEAR(few.length, (m + p - 1) * work(c), close);
      EXPECT_THAT(few.bubble, Each(DoubleNear(bubble, close)));
      for (int s = 0; s < p; ++s) {
        EXPECT_EQ(few.live[s], std::min(p - s, m));
      }
    }
  }
}

TEST(Timeline, ChunksDivideTheIdleTime) {
  for (const Size& size : sizes) {
    for (const PassCosts& c : costs) {
      for (const int v : {2, 3, 4}) {
        SCOPED_TRACE(name_of(size, c) + ", chunks " + std::to_string(v));
        const auto [p, m] = size;
        const ScheduleCost cost = cost_of(interleaved(p, m, v), c);
        const double bubble = (p - 1.0) / (v * m + p - 1.0);
        EXPECT_NEAR(cost.length, (m + (p - 1.0) / v) * work(c), close);
        EXPECT_THAT(cost.bubble, Each(DoubleNear(bubble, close)));
        for (int s = 0; s < p; ++s) {
          const int most = 2 * (p - s - 1) + (v - 1) * p + 1;
          EXPECT_NEAR(
              cost.live[s],
              std::min(most, v * m) / static_cast<double>(v),
              close);
        }
      }
    }
  }
}

// The longest of three ways through the passes. On the first stage: its
// forwards, and p - 1 backwards until the first gradient is back from the last
// stage. On the last stage: p - 1 forwards before the first arrives. From one
// to the other: the last stage has put off the weights of p - 1 micro batches
// when it ends its last backward, which then goes back to the first.
TEST(Timeline, SplitBackwardsFillTheIdleTimeWithWeights) {
  for (const Size& size : sizes) {
    for (const PassCosts& c : costs) {
      SCOPED_TRACE(name_of(size, c));
      const auto [p, m] = size;
      const double idle = (p - 1) *
          std::max({c.forward, c.backward, c.forward + c.backward - c.weights});
      const ScheduleCost cost = cost_of(zero_bubble_h1(p, m), c);
      EXPECT_NEAR(cost.length, m * work(c) + idle, close);
      EXPECT_THAT(
          cost.bubble,
          Each(DoubleNear(idle / (m * work(c) + idle), close)));
      EXPECT_THAT(cost.live, Each(DoubleEq(p)));
      // The memory is at most that of 1F1B on its worst stage, in less time.
      const ScheduleCost before = cost_of(one_forward_one_backward(p, m), c);
      EXPECT_EQ(cost.most_live(), before.most_live());
      EXPECT_LT(cost.length, before.length);
    }
  }
  // A third of 1F1B's idle time is left if costs are equal.
  EXPECT_NEAR(cost_of(zero_bubble_h1(4, 8)).length, 3 * 8 + 3, close);
  EXPECT_NEAR(cost_of(one_forward_one_backward(4, 8)).length, 3 * 11, close);
}

TEST(Timeline, CountsWhatTheCheckCounts) {
  for (int stages = 2; stages <= 7; ++stages) {
    for (int count = 1; count <= 9; ++count) {
      for (const Schedule& schedule :
           {gpipe(stages, count),
            one_forward_one_backward(stages, count),
            interleaved(stages, count, 2),
            zero_bubble_h1(stages, count)}) {
        const ScheduleLoad load = check(schedule);
        const ScheduleCost cost = cost_of(schedule);
        for (int s = 0; s < stages; ++s) {
          EXPECT_EQ(cost.live[s] * schedule.chunks, load.live_activations[s])
              << schedule.name << ' ' << stages << ' ' << count;
        }
      }
    }
  }
}

TEST(Timeline, MessagesTakeTime) {
  const Timeline times =
      timeline(gpipe(2, 1), {.forward = 1, .backward = 1, .message = 3});
  EXPECT_EQ(times.length, 1 + 3 + 1 + 2 + 3 + 2);
  EXPECT_EQ(times.busy[0], 3);
  EXPECT_EQ(times.bubble(0), 0.75);
}

TEST(Timeline, PartsMayCostDifferently) {
  const TimelineOptions options{
      .parts =
          {{.forward = 1, .backward = 1, .weights = 1},
           {.forward = 2, .backward = 3, .weights = 4}},
      .keep_passes = false};
  const Timeline times = timeline(gpipe(2, 3), options);
  // Forward 1, then three times 2; backward three times 7, then 2.
  EXPECT_EQ(times.length, 1 + 3 * 2 + 3 * 7 + 2);
  EXPECT_EQ(times.busy, (std::vector<double>{9, 27}));
  EXPECT_EQ(times.live, (std::vector<int>{3, 3}));
  EXPECT_TRUE(times.stages.empty());
  EXPECT_THROW(timeline(gpipe(3, 3), options), UsageError);
}

TEST(Timeline, RefusesWhatCannotBe) {
  EXPECT_THROW(timeline(gpipe(2, 1), {.forward = -1}), ConfigError);
  EXPECT_THROW(
      timeline(
          gpipe(2, 1),
          {.weights = std::numeric_limits<double>::quiet_NaN()}),
      ConfigError);
  Schedule stuck = gpipe(2, 1);
  std::erase_if(stuck.stages[0], [](const Instruction& each) {
    return each.op == Op::forward;
  });
  EXPECT_THROW(timeline(stuck), UsageError);
}

} // namespace
} // namespace cairn::pipeline::timeline_test
