#include "pretrain/build_model.h"

#include <cairn/models/transformer.h>
#include <cairn/pipeline/pipeline_module.h>

#include <memory>
#include <utility>
#include <vector>

namespace cairn::pretrain {

namespace {

using distributed::Axis;

struct Recompute {
  bool on = false;
  std::int64_t layers = 1; ///< at a time
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

pipeline::LayerSpec spec_of(const models::ModelLayer& layer) {
  pipeline::LayerSpec spec = pipeline::LayerSpec::built_by(
                                 layer.build,
                                 [forward = layer.forward](
                                     torch::nn::Module& module,
                                     const pipeline::Tensors& inputs) {
                                   return forward(module, inputs);
                                 })
                                 .named(layer.name);
  spec.type = layer.type;
  spec.tie = layer.tied_key;
  return spec;
}

Model build_stage(
    const checkpoints::ModelDescription& description,
    const models::ModelOptions& options,
    const Recompute& recompute,
    const config::Config& config,
    const distributed::ProcessMesh& mesh,
    const BuildOptions& build) {
  const models::LayeredModel layered =
      models::model_layers(description, options, build.inputs);
  std::vector<pipeline::LayerSpec> layers;
  for (const models::ModelLayer& layer : layered.layers) {
    layers.push_back(spec_of(layer));
  }
  // As many blocks on every stage, unless the JSON says otherwise.
  const bool chosen = config.given.contains("pipeline.partition");
  pipeline::PipelineModuleOptions made{
      .stage = mesh.coordinate(Axis::pipeline),
      .stages = mesh.degree(Axis::pipeline),
      .partition = pipeline::PartitionMethod::parse(
          chosen ? config.deepspeed.pipeline.partition : "type:block"),
      .loss = build.loss ? build.loss(layered) : layered.loss};
  if (recompute.on) {
    made.activation_checkpoint_interval = recompute.layers;
    made.checkpoint = recompute.options;
  }
  return Model(std::make_shared<pipeline::PipelineModule>(
      std::move(layers),
      std::move(made)));
}

} // namespace

bool is_pipelined(const config::DistributedFlags& flags) {
  return flags.pipeline_parallel > 1;
}

BuildOptions build_options(const config::Flags& flags) {
  return {
      .seed = static_cast<std::uint64_t>(flags.training.seed),
      .inputs = {
          .positions = flags.data.reset_position_ids,
          .mask = flags.data.reset_attention_mask}};
}

distributed::ProcessMesh mesh_of(
    const config::DistributedFlags& flags,
    const distributed::ProcessGroup& world) {
  return distributed::ProcessMesh(
      world,
      distributed::MeshShape::infer(
          world.size(),
          {.pipeline = static_cast<int>(flags.pipeline_parallel),
           .tensor = static_cast<int>(flags.tensor_parallel)}));
}

Model build_model(
    const checkpoints::ModelDescription& description,
    const config::Config& config,
    const distributed::ProcessMesh& mesh,
    at::Device device,
    const Logger& logger,
    const BuildOptions& build) {
  const Recompute recompute = recompute_of(config, mesh, logger);
  models::ModelOptions options{
      .tensor_group = mesh.along(Axis::tensor),
      .sequence_parallel = config.flags.distributed.sequence_parallel,
      .device = device,
      .seed = build.seed,
      .initial_std = config.flags.model.init_method_std};
  if (is_pipelined(config.flags.distributed)) {
    return build_stage(description, options, recompute, config, mesh, build);
  }
  if (recompute.on) {
    options.recompute = recompute.options;
    options.recompute_layers = recompute.layers;
  }
  return Model(models::make_model(description, options));
}

} // namespace cairn::pretrain
