// Running a pipeline's schedule as events.

#include "plan/pipeline_run.h"

#include <gtest/gtest.h>

namespace cairn::plan {
namespace {

RunLayout layout_with(
    const std::string& schedule,
    std::int64_t stages,
    std::int64_t micro_batches,
    std::int64_t chunks = 1) {
  return {
      .gpus = stages,
      .pipeline = stages,
      .schedule = schedule,
      .chunks = chunks,
      .micro_batch = 1,
      .global_batch = micro_batches};
}

TEST(PlanPipelineRun, ManyMicroBatchesTakeAsLongAsSimulatingThemAll) {
  for (const auto& [name, chunks] :
       {std::pair{"1f1b", 1},
        std::pair{"interleaved", 2},
        std::pair{"zb-h1", 1}}) {
    SCOPED_TRACE(name);
    std::vector<pipeline::PartCosts> parts(
        static_cast<std::size_t>(4 * chunks),
        {.forward = 1, .backward = 1, .weights = 1});
    parts.back().forward = 1.4; // the head
    parts.back().backward = 1.8;
    const RunLayout layout = layout_with(name, 4, 96, chunks);
    EstimatorCache cache;
    const PipelineRun few = run_pipeline(layout, parts, 0.1, false, cache);
    const PipelineRun all = run_pipeline(layout, parts, 0.1, true, cache);
    EXPECT_NEAR(few.length / all.length, 1, 0.01);
    EXPECT_EQ(few.live, all.live);
  }
}

TEST(PlanPipelineRun, ASlowStageHoldsUpTheOthers) {
  const std::vector<pipeline::PartCosts> even(
      4,
      {.forward = 1, .backward = 1, .weights = 1});
  std::vector<pipeline::PartCosts> uneven = even;
  uneven[2].forward = 2;
  const RunLayout layout = layout_with("1f1b", 4, 16);
  EstimatorCache cache;
  const PipelineRun fast = run_pipeline(layout, even, 0, true, cache);
  const PipelineRun slow = run_pipeline(layout, uneven, 0, true, cache);
  EXPECT_DOUBLE_EQ(fast.length, (16 + 3) * 3);
  EXPECT_GE(slow.length, fast.length + 15); // one of 16 extra units is hidden
  ASSERT_EQ(slow.stages.size(), 4);
  EXPECT_EQ(slow.stages[2].front().kind, 'F');
  EXPECT_DOUBLE_EQ(slow.stages[2].front().end, 4); // after two stages of 1
}

} // namespace
} // namespace cairn::plan
