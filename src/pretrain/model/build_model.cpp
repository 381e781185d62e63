#include "pretrain/model/build_model.h"

#include "pretrain/plan/stages.h"

#include <cairn/models/transformer.h>
#include <cairn/pipeline/pipeline_module.h>

#include <utility>

namespace cairn::pretrain {

namespace {

using distributed::Axis;

struct Recompute {
  bool on = false;
  std::int64_t layers = 1; ///< computed again at a time
  nn::CheckpointOptions options{};
};

Recompute recompute_of(
    const config::Config& config,
    const distributed::ProcessMesh& mesh,
    const Logger& logger) {
  const config::TrainingFlags& flags = config.flags.training;
  Recompute result{
      .on = flags.checkpoint_activations ||
          flags.recompute_granularity == config::RecomputeGranularity::full,
      .layers = flags.recompute_num_layers.value_or(1)};
  if (result.on) {
    result.options = nn::CheckpointOptions::from(
        config.deepspeed.activation_checkpointing,
        mesh.along(Axis::tensor),
        logger);
  }
  return result;
}

} // namespace

BuildOptions build_options(
    const model::ModelDescription& description,
    const config::Flags& flags) {
  return {
      .seed = static_cast<std::uint64_t>(flags.training.seed),
      .inputs = pretraining_inputs(description, flags)};
}

distributed::ProcessMesh mesh_of(
    const config::DistributedFlags& flags,
    const distributed::ProcessGroup& world) {
  return distributed::ProcessMesh(
      world,
      distributed::MeshShape::infer(
          world.size(),
          {.pipeline = static_cast<int>(flags.pipeline_parallel),
           .tensor = static_cast<int>(flags.tensor_parallel),
           .expert = static_cast<int>(flags.expert_parallel),
           .context = static_cast<int>(flags.context_parallel)}));
}

nn::ContextParallel context_of(
    const config::DistributedFlags& flags,
    const distributed::ProcessMesh& mesh) {
  return {
      .group = mesh.along(Axis::context),
      .kind = flags.context_parallel_kind == config::ContextParallelKind::ring
          ? nn::ContextKind::ring
          : nn::ContextKind::ulysses};
}

/// Sets where products are in fp8, and says so.
void take_fp8(
    const config::PrecisionFlags& flags,
    models::ModelOptions& options,
    const Logger& logger) {
  if (!flags.fp8_format) {
    return;
  }
  options.fp8 = *flags.fp8_format == config::Fp8Format::hybrid
      ? nn::Fp8Format::hybrid
      : nn::Fp8Format::e4m3;
  if (flags.first_last_layers_bf16) {
    options.first_blocks_without_fp8 = flags.layers_at_start_in_bf16;
    options.last_blocks_without_fp8 = flags.layers_at_end_in_bf16;
  }
  logger.info(
      "products of the blocks in fp8: e4m3, gradients {}; none in the first {} "
      "and the last {} blocks",
      *options.fp8 == nn::Fp8Format::hybrid ? "e5m2" : "e4m3",
      options.first_blocks_without_fp8,
      options.last_blocks_without_fp8);
}

Model build_model(
    const model::ModelDescription& description,
    const config::Config& config,
    const distributed::ProcessMesh& mesh,
    at::Device device,
    const Logger& logger,
    const BuildOptions& build) {
  const Recompute recompute = recompute_of(config, mesh, logger);
  models::ModelOptions options{
      .tensor_group = mesh.along(Axis::tensor),
      .expert_group = mesh.along(Axis::expert),
      .sequence_parallel = config.flags.distributed.sequence_parallel,
      .sequence = context_of(config.flags.distributed, mesh),
      .device = device,
      .seed = build.seed,
      .initial_std = config.flags.model.init_method_std,
      .dropout_seed = static_cast<std::uint64_t>(config.flags.training.seed),
      .dropping_layers = config.deepspeed.random_ltd.layers};
  take_fp8(config.flags.precision, options, logger);
  if (is_pipelined(config.flags.distributed)) {
    pipeline::PipelineModuleOptions place{
        .stage = mesh.coordinate(Axis::pipeline),
        .stages = mesh.degree(Axis::pipeline)};
    if (recompute.on) {
      place.activation_checkpoint_interval = recompute.layers;
      place.checkpoint = recompute.options;
    }
    return Model(
        build_stage(description, options, config, build, std::move(place)));
  }
  if (recompute.on) {
    options.recompute = recompute.options;
    options.recompute_layers = recompute.layers;
  }
  return Model(models::make_model(description, options));
}

} // namespace cairn::pretrain
