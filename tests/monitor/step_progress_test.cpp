#include "monitor/internal/step_progress.h"

#include <gtest/gtest.h>

namespace cairn::monitor::step_progress_test {
namespace {

// The expected lines come from DeepSpeed's own format string for the same
// values.
TEST(StepProgress, IsTheLineOfDeepSpeed) {
  EXPECT_EQ(
      to_string(StepProgress{
          .step = 10,
          .skipped = 2,
          .groups =
              {{.learning_rate = 0.001, .momentum = {0.9, 0.999}},
               {.learning_rate = 5e-05, .momentum = {0.9, 0.95}}}}),
      "step=10, skipped=2, lr=[0.001, 5e-05], mom=[(0.9, 0.999), (0.9, 0.95)]");
  EXPECT_EQ(
      to_string(StepProgress{
          .step = 1,
          .groups = {{.learning_rate = 0.0, .momentum = {0.9}}}}),
      "step=1, skipped=0, lr=[0.0], mom=[0.9]");
  EXPECT_EQ(
      to_string(StepProgress{.step = 1, .groups = {{.learning_rate = 1}}}),
      "step=1, skipped=0, lr=[1.0], mom=[0.0]");
  EXPECT_EQ(to_string(StepProgress{}), "step=0, skipped=0, lr=[], mom=[]");
}

} // namespace
} // namespace cairn::monitor::step_progress_test
