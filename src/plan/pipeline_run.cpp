#include "plan/pipeline_run.h"

#include <cstddef>
#include <utility>

namespace cairn::plan {
namespace {

char letter_of(pipeline::Pass::Kind kind) {
  using Kind = pipeline::Pass::Kind;
  return kind == Kind::forward ? 'F' : kind == Kind::backward ? 'B' : 'W';
}

std::vector<std::vector<TimedPass>> shown(
    const std::vector<std::vector<pipeline::TimedPass>>& stages) {
  std::vector<std::vector<TimedPass>> result;
  for (const auto& passes : stages) {
    auto& stage = result.emplace_back();
    for (const pipeline::TimedPass& each : passes) {
      stage.push_back(
          {.kind = letter_of(each.pass.kind),
           .micro_batch = each.pass.micro_batch,
           .chunk = each.pass.chunk,
           .begin = each.begin,
           .end = each.end});
    }
  }
  return result;
}

} // namespace

PipelineRun run_pipeline(
    const RunLayout& layout,
    const std::vector<pipeline::PartCosts>& parts,
    double message,
    bool all_passes,
    EstimatorCache& cache) {
  const std::int64_t micro_batches = layout.micro_batches();
  if (layout.pipeline == 1 && !all_passes) {
    const auto count = static_cast<double>(micro_batches);
    const double time =
        count * (parts[0].forward + parts[0].backward + parts[0].weights);
    return {.length = time, .busy = {time}, .live = {1}, .stages = {}};
  }
  const auto run = [&](std::int64_t count) {
    pipeline::Timeline times = pipeline::timeline(
        cache.schedule(layout, count),
        {.parts = parts, .message = message, .keep_passes = all_passes});
    return PipelineRun{
        .length = times.length,
        .busy = std::move(times.busy),
        .live = std::move(times.live),
        .stages = shown(times.stages)};
  };
  const std::int64_t few = 2 * layout.pipeline;
  const std::int64_t more = 3 * layout.pipeline;
  // GPipe has all micro batches live, however many there are.
  const bool steady = layout.schedule != "gpipe";
  if (all_passes || !steady || micro_batches <= more + layout.pipeline) {
    return run(micro_batches);
  }
  PipelineRun first = run(few);
  PipelineRun second = run(more);
  const double groups = static_cast<double>(micro_batches - more) /
      static_cast<double>(more - few);
  second.length += groups * (second.length - first.length);
  for (std::size_t stage = 0; stage < second.busy.size(); ++stage) {
    second.busy[stage] += groups * (second.busy[stage] - first.busy[stage]);
  }
  return second;
}

} // namespace cairn::plan
