#include "engine/build/make_pipeline.h"

#include <cairn/base/error.h>
#include <cairn/pipeline/pipeline_module.h>
#include <fmt/format.h>

#include <functional>
#include <utility>

namespace cairn::inline engine {

namespace {

std::function<pipeline::Schedule(int, int)> schedule_named(
    config::PipelineSchedule name,
    int chunks) {
  using config::PipelineSchedule;
  switch (name) {
    case PipelineSchedule::gpipe:
      return pipeline::gpipe;
    case PipelineSchedule::one_f_one_b:
      return pipeline::one_forward_one_backward;
    case PipelineSchedule::interleaved:
      return [chunks](int stages, int micro_batches) {
        return pipeline::interleaved(stages, micro_batches, chunks);
      };
    case PipelineSchedule::zero_bubble:
      return pipeline::zero_bubble_h1;
  }
  throw InternalError({.what = "an unknown schedule"});
}

/// The schedule of a module. A module with chunks gets the interleaved schedule
/// unless the configuration names another.
config::PipelineSchedule schedule_for(
    const pipeline::PipelineModule& module,
    const config::Config& config) {
  return module.chunks() > 1 && !config.given.contains("--pipeline-schedule")
      ? config::PipelineSchedule::interleaved
      : config.flags.distributed.pipeline_schedule;
}

} // namespace

std::unique_ptr<pipeline::Executor> make_pipeline(
    const Job& job,
    torch::nn::Module& module,
    pipeline::Hooks hooks) {
  using distributed::Axis;
  auto* stages = dynamic_cast<pipeline::PipelineModule*>(&module);
  if (stages == nullptr) {
    if (job.mesh && job.mesh->degree(Axis::pipeline) > 1) {
      throw UsageError(
          {.what = "pipeline stages need a model that is cut into them",
           .values = fmt::format("{} stages", job.mesh->degree(Axis::pipeline)),
           .remedy = "pass a cairn::pipeline::PipelineModule"});
    }
    return nullptr;
  }
  return std::make_unique<pipeline::Executor>(
      *stages,
      job.mesh ? job.mesh->along(Axis::pipeline) : distributed::ProcessGroup(),
      pipeline::ExecutorOptions{
          .schedule = schedule_named(
              schedule_for(*stages, job.config),
              stages->chunks()),
          .device = job.device,
          .hooks = std::move(hooks)});
}

} // namespace cairn::engine
