#include "engine/memory/memory_use.h"

#include "engine/internal/device_memory.h"
#include "engine/internal/out_of_memory_error.h"
#include "engine/memory/out_of_memory.h"
#include "engine/memory/states_plan.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <string>

namespace cairn::inline engine {

namespace {

Shortage shortage_of(
    const Job& job,
    const TrainedModel& trained,
    const ActivationUse& activations) {
  return {
      .plan = states_plan(job, trained),
      .micro_batch = job.batch().micro,
      .accumulation = job.batch().accumulation,
      .activations = activations.most,
      .checkpoints_activations = activations.checkpointed,
      .clients_optimizer = trained.clients_optimizer,
      .before_training = !trained.optimizer};
}

[[noreturn]] void explain(
    std::string_view doing,
    const std::string& cause,
    const Job& job,
    const TrainedModel& trained,
    const ActivationUse& activations) {
  const Shortage shortage = shortage_of(job, trained, activations);
  const auto ways = remedies(shortage);
  job.logger.error(
      "out of memory in {} on {}: {}\n{}"
      "  by plan: {}{}{}",
      doing,
      job.device.str(),
      cause,
      memory_report(job, trained, activations).describe(),
      estimate_of(shortage.plan).describe(),
      ways.empty() ? "" : "\nwhat would need less, the cheapest first:",
      describe(ways));
  throw OutOfMemoryError(
      {.what = fmt::format("out of memory in {}", doing),
       .where = job.device.str(),
       .values = cause,
       .remedy = ways.empty() ? "use a smaller model, or more ranks"
                              : ways.front().what + "; the log has more"});
}

} // namespace

MemoryReport memory_report(
    const Job& job,
    const TrainedModel& trained,
    const ActivationUse& activations) {
  MemoryReport report;
  report.device = job.device.str();
  if (trained.flat) {
    const zero::FlatParameters::Bytes bytes = trained.flat->bytes();
    report.parameters = bytes.whole + bytes.shards;
    report.parameters_on_cpu = bytes.on_cpu;
    report.parameters_on_disk = bytes.on_disk;
    report.gathered = bytes.live;
  }
  if (trained.reducer) {
    report.gradients = trained.reducer->bytes();
    report.gradients_on_cpu = trained.reducer->bytes_on_cpu();
  }
  if (trained.optimizer) {
    const zero::ShardTier::Bytes bytes = trained.optimizer->bytes();
    const bool on_cpu =
        job.policy.optimizer_tier != zero::Tier::device && job.device.is_cuda();
    (on_cpu ? report.optimizer_on_cpu : report.optimizer) = bytes.memory;
    report.optimizer += bytes.device;
    report.optimizer_on_disk = bytes.disk;
  }
  for (const at::Tensor& buffer : trained.model.module().buffers()) {
    report.buffers += static_cast<std::int64_t>(buffer.nbytes());
  }
  report.activations = activations.most;
  const monitor::AllocatedMemory held = allocated(job.device);
  report.allocated = static_cast<std::int64_t>(held.bytes);
  report.most_allocated = static_cast<std::int64_t>(held.peak_bytes);
  report.other = report.allocated - report.model_states() - report.gathered -
      report.buffers;
  return report;
}

void fail(
    std::string_view doing,
    const Job& job,
    const TrainedModel& trained,
    const ActivationUse& activations) {
  try {
    throw;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) {
      throw;
    }
    const std::string_view text = error.what();
    explain(
        doing,
        std::string(text.substr(0, text.find('\n'))),
        job,
        trained,
        activations);
  }
}

} // namespace cairn::engine
