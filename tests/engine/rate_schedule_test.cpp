#include "engine/step/rate_schedule.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace cairn::engine::rate_schedule_test {
namespace {

/// A schedule of one group whose lr is the progress.
struct Counting final : optim::Schedule {
  std::vector<optim::GroupValuesPatch> at(std::int64_t done) const override {
    return {{.lr = static_cast<double>(done)}};
  }
};

TEST(RateSchedule, CountsUpdatesOrSamples) {
  for (const auto counts :
       {RateSchedule::Counts::updates, RateSchedule::Counts::samples}) {
    RateSchedule schedule(std::make_shared<Counting>(), counts);
    std::vector<optim::GroupValues> groups(2);
    schedule.advance(8);
    schedule.advance(8);
    schedule.apply_to(groups);
    const double done = counts == RateSchedule::Counts::updates ? 2 : 16;
    EXPECT_EQ(groups[0].lr, done);
    EXPECT_EQ(groups[1].lr, done) << "the last patch is for all that follow";
    EXPECT_EQ(schedule.steps(), done);
  }
}

TEST(RateSchedule, GoesOnFromACheckpoint) {
  RateSchedule schedule(
      std::make_shared<Counting>(),
      RateSchedule::Counts::updates);
  schedule.set_steps(41);
  schedule.advance(8);
  std::vector<optim::GroupValues> groups(1);
  schedule.apply_to(groups);
  EXPECT_EQ(groups[0].lr, 42);
}

TEST(RateSchedule, LeavesValuesAloneWithoutASchedule) {
  RateSchedule schedule(nullptr, RateSchedule::Counts::updates);
  std::vector<optim::GroupValues> groups{{.lr = 0.5}};
  schedule.advance(8);
  schedule.apply_to(groups);
  EXPECT_EQ(groups[0].lr, 0.5);
  EXPECT_EQ(schedule.steps(), 1);
}

} // namespace
} // namespace cairn::engine::rate_schedule_test
