// Running a pipeline's schedule as events.

#include "plan/pipeline_run.h"
#include "pipeline/internal/timeline.h"

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

TEST(PlanPipelineRun, AgreesWithTheTimelineOfEqualStages) {
  for (const auto& [name, chunks] :
       {std::pair{"gpipe", 1},
        std::pair{"1f1b", 1},
        std::pair{"interleaved", 3},
        std::pair{"zb-h1", 1}}) {
    SCOPED_TRACE(name);
    const auto schedule = pipeline::make_schedule(name, 4, 8, chunks);
    const auto expected = pipeline::cost_of(
        schedule,
        {.forward = 3, .backward = 3, .weights = 3, .message = 0.5});
    const std::vector<PartCost> parts(
        static_cast<std::size_t>(4 * chunks),
        {.forward = 3.0 / chunks,
         .backward = 6.0 / chunks,
         .weights = 3.0 / chunks});
    const PipelineRun run = run_schedule(schedule, parts, 0.5, true);
    EXPECT_NEAR(run.length, expected.length, 1e-9);
    for (std::size_t stage = 0; stage < 4; ++stage) {
      double live = 0;
      for (std::size_t part = stage; part < parts.size(); part += 4) {
        live += static_cast<double>(run.live[part]) / chunks;
      }
      EXPECT_NEAR(live, expected.live[stage], 1e-9);
      EXPECT_NEAR(
          1 - run.busy[stage] / run.length,
          expected.bubble[stage],
          1e-9);
    }
  }
}

TEST(PlanPipelineRun, ManyMicroBatchesTakeAsLongAsSimulatingThemAll) {
  for (const auto& [name, chunks] :
       {std::pair{"1f1b", 1},
        std::pair{"interleaved", 2},
        std::pair{"zb-h1", 1}}) {
    SCOPED_TRACE(name);
    std::vector<PartCost> parts(
        static_cast<std::size_t>(4 * chunks),
        {.forward = 1, .backward = 2, .weights = 1});
    parts.back().forward = 1.4; // the head
    parts.back().backward = 2.8;
    const RunLayout layout = layout_with(name, 4, 96, chunks);
    EstimatorCache cache;
    const PipelineRun few = run_pipeline(layout, parts, 0.1, false, cache);
    const PipelineRun all = run_pipeline(layout, parts, 0.1, true, cache);
    EXPECT_NEAR(few.length / all.length, 1, 0.01);
    EXPECT_EQ(few.live, all.live);
  }
}

TEST(PlanPipelineRun, ASlowStageHoldsUpTheOthers) {
  const std::vector<PartCost> even(4, {.forward = 1, .backward = 2});
  std::vector<PartCost> uneven = even;
  uneven[2].forward = 2;
  const RunLayout layout = layout_with("1f1b", 4, 16);
  EstimatorCache cache;
  const double fast = run_pipeline(layout, even, 0, true, cache).length;
  const double slow = run_pipeline(layout, uneven, 0, true, cache).length;
  EXPECT_DOUBLE_EQ(fast, (16 + 3) * 3);
  EXPECT_GE(slow, fast + 15); // one of its 16 extra units is hidden
}

} // namespace
} // namespace cairn::plan
