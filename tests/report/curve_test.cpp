#include "report/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cairn::report::curve_test {
namespace {

using ::testing::ElementsAre;

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

std::vector<std::int64_t> steps_of(const Curve& curve) {
  std::vector<std::int64_t> steps;
  for (const Curve::Point& point : curve.points()) {
    steps.push_back(point.step);
  }
  return steps;
}

TEST(Curve, KeepsWhatFits) {
  Curve curve(8);
  for (const std::int64_t step : {1, 2, 5, 9}) {
    curve.add(step, 10.0 / static_cast<double>(step));
  }
  EXPECT_THAT(
      curve.points(),
      ElementsAre(
          Curve::Point{1, 10.0},
          Curve::Point{2, 5.0},
          Curve::Point{5, 2.0},
          Curve::Point{9, 10.0 / 9}));
  EXPECT_EQ(curve.last(), 10.0 / 9);
  EXPECT_EQ(curve.highest(), 10.0);
  EXPECT_NEAR(*curve.mean(), (17 + 10.0 / 9) / 4, 1e-12);
}

TEST(Curve, OfManyPointsKeepsEverySpike) {
  Curve curve(64);
  constexpr std::int64_t count = 100'000;
  double sum = 0;
  for (std::int64_t step = 1; step <= count; ++step) {
    double value = std::sin(static_cast<double>(step) / 1000);
    if (step == 4321) {
      value = 50; // one step wide
    }
    if (step == 77'777) {
      value = -50;
    }
    sum += value;
    curve.add(step, value);
  }
  const auto points = curve.points();
  EXPECT_LE(points.size(), 3 * 64U + 2);
  EXPECT_GE(points.size(), 32U);
  EXPECT_THAT(points, ::testing::Contains(Curve::Point{4321, 50.0}));
  EXPECT_THAT(points, ::testing::Contains(Curve::Point{77'777, -50.0}));
  EXPECT_EQ(points.front().step, 1);
  EXPECT_EQ(points.back().step, count);
  EXPECT_TRUE(std::ranges::is_sorted(points, {}, &Curve::Point::step));
  EXPECT_NEAR(*curve.mean(), sum / count, 1e-9);
}

TEST(Curve, StepsFarApartShareNothingAndCostNothing) {
  Curve curve(4);
  for (int i = 0; i < 53; ++i) {
    curve.add((std::int64_t{1} << i) - 1, i);
  }
  EXPECT_LE(curve.points().size(), 4 * 3U + 2);
  EXPECT_EQ(curve.last(), 52);
  EXPECT_EQ(curve.lowest(), 0);
}

TEST(Curve, WhatIsNotFiniteIsAPointWithoutAValue) {
  Curve curve(8);
  curve.add(1, 2.0);
  curve.add(2, std::numeric_limits<double>::infinity());
  curve.add(3, nan_value);
  EXPECT_THAT(steps_of(curve), ElementsAre(1, 2, 3));
  EXPECT_TRUE(std::isnan(curve.points()[1].value));
  EXPECT_EQ(curve.last(), 2.0);
  EXPECT_EQ(curve.mean(), 2.0);
  Curve without(8);
  without.add(1, nan_value);
  EXPECT_EQ(without.last(), std::nullopt);
  EXPECT_EQ(without.mean(), std::nullopt);
}

TEST(Curve, GoesBack) {
  Curve curve(8);
  for (std::int64_t step = 1; step <= 8; ++step) {
    curve.add(step, static_cast<double>(step));
  }
  curve.cut_after(5);
  EXPECT_THAT(steps_of(curve), ElementsAre(1, 2, 3, 4, 5));
  curve.add(6, 60);
  EXPECT_EQ(curve.last(), 60);
  curve.cut_after(0);
  EXPECT_TRUE(curve.empty());
}

TEST(Curve, GoesBackInsideABucket) {
  Curve curve(4);
  for (std::int64_t step = 0; step < 64; ++step) {
    curve.add(step, step == 50 ? 1000.0 : static_cast<double>(step));
  }
  curve.cut_after(40); // buckets are 16 steps wide
  EXPECT_LE(curve.last_step(), 40);
  EXPECT_LT(*curve.highest(), 1000);
  curve.add(41, 7);
  EXPECT_EQ(curve.last(), 7);
}

} // namespace
} // namespace cairn::report::curve_test
