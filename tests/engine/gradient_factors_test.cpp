#include "engine/step/gradient_factors.h"

#include <gtest/gtest.h>

namespace cairn::engine::gradient_factors_test {
namespace {

TEST(GradientFactors, MakeAMean) {
  const GradientFactors wide = gradient_factors({}, 8, false);
  EXPECT_EQ(wide.before, 1);
  EXPECT_EQ(wide.after, 1.0 / 8);
  const GradientFactors narrow = gradient_factors({}, 8, true);
  EXPECT_EQ(narrow.before, 1.0 / 8) << "a sum of fp16 would overflow";
  EXPECT_EQ(narrow.after, 1);
}

TEST(GradientFactors, DivideWhereTheConfigurationSays) {
  const auto prescaled = gradient_factors({.prescale = true}, 4, false);
  EXPECT_EQ(prescaled.before, 1.0 / 4);
  EXPECT_EQ(prescaled.after, 1);
  for (const bool narrow : {false, true}) {
    const auto half = gradient_factors({.predivide_factor = 2}, 4, narrow);
    EXPECT_EQ(half.before, 1.0 / 2);
    EXPECT_EQ(half.after, 1.0 / 2);
  }
}

TEST(GradientFactors, MakeASum) {
  const config::GradientConfig sum{.allreduce_op = config::ReduceOp::sum};
  for (const bool narrow : {false, true}) {
    const auto factors = gradient_factors(sum, 4, narrow);
    EXPECT_EQ(factors.before * factors.after, 1);
  }
}

} // namespace
} // namespace cairn::engine::gradient_factors_test
