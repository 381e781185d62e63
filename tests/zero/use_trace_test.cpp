#include "zero/plan/use_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::zero::use_trace_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

UseTrace after_pass(std::initializer_list<int> uses) {
  UseTrace trace({10, 20, 30, 40});
  for (const int bucket : uses) {
    trace.note(bucket);
  }
  trace.finish_pass();
  return trace;
}

TEST(UseTrace, KnowsNothingAtFirst) {
  UseTrace trace({10, 20});
  EXPECT_FALSE(trace.predicts());
  EXPECT_EQ(trace.distance_to(0), std::nullopt);
  EXPECT_THAT(trace.upcoming(1000), IsEmpty());
}

TEST(UseTrace, PredictsTheNextPass) {
  UseTrace trace = after_pass({0, 0, 1, 2, 2, 1, 0});
  EXPECT_TRUE(trace.predicts());
  EXPECT_THAT(trace.upcoming(1000), ElementsAre(0, 1, 2));
  trace.note(0);
  EXPECT_THAT(trace.upcoming(1000), ElementsAre(1, 2, 0));
  EXPECT_THAT(trace.upcoming(50), ElementsAre(1, 2));
  EXPECT_THAT(trace.upcoming(19), IsEmpty());
  EXPECT_EQ(trace.distance_to(1), 0);
  EXPECT_EQ(trace.distance_to(2), 20);
  EXPECT_EQ(trace.distance_to(0), 20 + 30 + 20);
  EXPECT_EQ(trace.distance_to(3), std::nullopt);
  EXPECT_FALSE(trace.strayed());
}

TEST(UseTrace, FindsItsWayBackAfterAnotherBranch) {
  UseTrace trace = after_pass({0, 1, 2, 0});
  trace.note(0);
  trace.note(3); // never seen before
  EXPECT_TRUE(trace.strayed());
  EXPECT_THAT(trace.upcoming(1000), ElementsAre(1, 2, 0));
  trace.note(2); // left 1 out
  EXPECT_THAT(trace.upcoming(1000), ElementsAre(0));
  trace.note(0);
  EXPECT_EQ(trace.distance_to(0), std::nullopt);
  trace.finish_pass();
  EXPECT_FALSE(trace.strayed());
  EXPECT_THAT(trace.upcoming(1000), ElementsAre(0, 3, 2));
}

} // namespace
} // namespace cairn::zero::use_trace_test
