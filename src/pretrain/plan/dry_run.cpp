#include "config/internal/curriculum_length.h"
#include "pretrain/internal/pretrain.h"
#include "pretrain/plan/checked_run.h"

#include <cairn/config/batch_config.h>
#include <cairn/distributed/mesh_layout.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>

namespace cairn::pretrain {

namespace {

std::string batches_text(const RunPlan& plan, const config::Config& config) {
  const config::BatchConfig& batch = *config.deepspeed.batch;
  std::string text = config::describe(batch);
  const std::int64_t first = plan.batch_size.at(0).running;
  if (first != batch.train) {
    text += fmt::format(", from {} samples on", first);
  }
  return text;
}

/// Counts with the vocabulary's padding, as `cairn config check` does.
std::string parameters_text(const model::ModelDescription& model) {
  const model::ParameterCount count =
      model::count_parameters(model::with_padding(model));
  std::string text = fmt::format("{} parameters", count.all);
  if (count.active < count.all) {
    text += fmt::format(" ({} for a token)", count.active);
  }
  return text;
}

} // namespace

std::string dry_run(Kind kind, const config::Config& config) {
  const CheckedRun run = check_run(kind, config);
  const model::ModelDescription& model = run.description;
  const config::DistributedFlags& flags = config.flags.distributed;
  const distributed::MeshShape mesh{
      .data = static_cast<int>(config.data_parallel_size),
      .pipeline = static_cast<int>(flags.pipeline_parallel),
      .tensor = static_cast<int>(flags.tensor_parallel),
      .context = static_cast<int>(flags.context_parallel)};
  const std::string experts = flags.expert_parallel == 1
      ? ""
      : fmt::format(", {} of them sharing out experts", flags.expert_parallel);
  std::string text = fmt::format(
      "model:      {}, {}, vocabulary {} padded to {}\n"
      "ranks:      {} = {} data x {} pipeline x {} tensor{}, ZeRO stage {}\n"
      "batch:      {}\n"
      "iterations: {}, {} samples of {} tokens\n",
      name_of(kind),
      parameters_text(model),
      model.vocabulary,
      model.padded_vocabulary,
      mesh.world_size(),
      mesh.data,
      mesh.pipeline,
      mesh.tensor,
      (mesh.context > 1 ? fmt::format(" x {} context", mesh.context) : "") +
          experts,
      static_cast<int>(config.deepspeed.zero.stage),
      batches_text(run.plan, config),
      run.plan.iterations,
      run.plan.samples,
      run.plan.sequence_length);
  if (run.plan.curriculum) {
    text += fmt::format(
        "curriculum: {}, {} tokens in all\n",
        config::describe(*run.plan.curriculum),
        run.plan.tokens.at(run.plan.samples));
  }
  if (run.plan.random_ltd) {
    text +=
        fmt::format("random-LTD: {}\n", config::describe(*run.plan.random_ltd));
  }
  for (const auto* lines : {&config.warnings, &run.notes}) {
    for (const std::string& line : *lines) {
      text += fmt::format("note:       {}\n", line);
    }
  }
  return text;
}

} // namespace cairn::pretrain
