#include "pretrain/internal/build_model.h"

#include "pretrain/internal/stages.h"

#include <cairn/models/transformer.h>
#include <cairn/nn/fp8_scaling.h>
#include <cairn/pipeline/pipeline_module.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace cairn::pretrain {

namespace {

using distributed::Axis;

/// Parts of a model that backward computes again, and how their inputs are
/// kept until then.
struct Recompute {
  bool layers = false;
  std::int64_t at_a_time = 1;
  std::optional<std::int64_t> first_layers{}; ///< only these; unset: all
  bool mlps = false;                          ///< parts of layers
  bool mixtures = false;
  bool norms = false; ///< outputs of parts, which need no options
  bool expert_activations = false;
  nn::CheckpointOptions options{};
};

Recompute recompute_of(
    const config::Config& config,
    const distributed::ProcessMesh& mesh,
    const Logger& logger) {
  const config::TrainingFlags& flags = config.flags.training;
  const auto has_part = [&](const char* name) {
    return flags.recomputes_parts() &&
        std::ranges::find(flags.recompute_modules, name) !=
        flags.recompute_modules.end();
  };
  Recompute result{
      .layers = flags.recomputes_layers(),
      .mlps = has_part("mlp"),
      .mixtures = has_part("moe"),
      .norms = has_part("layernorm"),
      .expert_activations = has_part("moe_act")};
  const std::int64_t number = flags.recompute_num_layers.value_or(1);
  if (flags.recompute_method == config::RecomputeMethod::block) {
    result.first_layers = number;
  } else {
    result.at_a_time = number;
  }
  if (result.layers || result.mlps || result.mixtures) {
    result.options = nn::CheckpointOptions::from(
        config.deepspeed.activation_checkpointing,
        mesh.along(Axis::tensor),
        logger);
  }
  return result;
}

} // namespace

/// Says where the attention that --recompute-modules names is kept anyway.
/// Fused attention ("core_attn") keeps no scores, whatever the flags say.
void warn_of_kept_attention(
    const config::Flags& flags,
    at::Device device,
    const Logger& logger) {
  const std::vector<std::string>& parts = flags.training.recompute_modules;
  const bool asked = flags.training.recomputes_parts() &&
      (parts.empty() || std::ranges::find(parts, "core_attn") != parts.end());
  if (asked && device.is_cpu() && flags.regularization.attention_dropout > 0 &&
      !has_ring(flags.distributed)) { // the ring keeps none
    logger.warning(
        "--attention-dropout on a CPU keeps the weights of attention for "
        "backward: core_attn is not computed again");
  }
}

/// Says where dropout of attention weights costs much: the ring has no fused
/// attention that drops.
void warn_of_slow_dropout(
    const config::Flags& flags,
    at::Device device,
    const Logger& logger) {
  if (device.is_cuda() && has_ring(flags.distributed) &&
      flags.regularization.attention_dropout > 0) {
    logger.warning(
        "--attention-dropout in ring attention writes the weights of attention "
        "to memory; --attention-dropout 0 is much faster");
  }
}

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
    const model::ModelDescription& description,
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
      "products of the blocks in fp8: e4m3, gradients {}, scales from {}; none "
      "in the first {} and the last {} blocks",
      *options.fp8 == nn::Fp8Format::hybrid ? "e5m2" : "e4m3",
      flags.fp8_recipe == config::Fp8Recipe::delayed ? "earlier updates"
                                                     : "the matrices",
      options.first_blocks_without_fp8,
      options.last_blocks_without_fp8);
  if (model::has_experts(description)) {
    logger.warning(
        "the products of experts stay in 16 bits: --fp8-format is for the "
        "other linear layers");
  }
}

/// Makes the units of fp8 matrices follow from earlier updates, where that is
/// the recipe.
void delay_fp8(
    const config::PrecisionFlags& flags,
    const Model& model,
    at::Device device) {
  if (!flags.fp8_format || flags.fp8_recipe != config::Fp8Recipe::delayed) {
    return;
  }
  using From = nn::Fp8Delay::From;
  nn::delay_fp8(
      model.module(),
      {.history = flags.fp8_amax_history_len,
       .from = flags.fp8_amax_compute_algo == config::Fp8AmaxAlgo::max
           ? From::max
           : From::most_recent,
       .margin = flags.fp8_margin},
      device);
}

namespace {

Model made_model(
    const model::ModelDescription& description,
    const config::Config& config,
    const distributed::ProcessMesh& mesh,
    at::Device device,
    const Logger& logger,
    const BuildOptions& build) {
  const Recompute recompute = recompute_of(config, mesh, logger);
  warn_of_kept_attention(config.flags, device, logger);
  warn_of_slow_dropout(config.flags, device, logger);
  models::ModelOptions options{
      .tensor_group = mesh.along(Axis::tensor),
      .expert_group = mesh.along(Axis::expert),
      .sequence_parallel = config.flags.distributed.sequence_parallel,
      .overlap_tokens = config.flags.distributed.tp_comm_overlap,
      .sequence = context_of(config.flags.distributed, mesh),
      .device = device,
      .seed = build.seed,
      .initial_std = config.flags.model.init_method_std,
      .later = build.later,
      .dropout_seed = static_cast<std::uint64_t>(config.flags.training.seed),
      .dropping_layers = config.deepspeed.random_ltd.layers};
  options.recompute_norms = recompute.norms;
  options.recompute_expert_activations = recompute.expert_activations;
  take_fp8(config.flags.precision, description, options, logger);
  if (recompute.mlps) {
    options.recompute_mlps = recompute.options;
  }
  if (recompute.mixtures) {
    options.recompute_mixtures = recompute.options;
  }
  if (is_pipelined(config.flags.distributed)) {
    pipeline::PipelineModuleOptions place{
        .stage = mesh.coordinate(Axis::pipeline),
        .stages = mesh.degree(Axis::pipeline)};
    if (recompute.layers) {
      place.activation_checkpoint_interval = recompute.at_a_time;
      place.checkpointed_blocks = recompute.first_layers;
      place.checkpoint = recompute.options;
    }
    return Model(
        build_stage(description, options, config, build, std::move(place)));
  }
  if (recompute.layers) {
    options.recompute = recompute.options;
    options.recompute_layers = recompute.at_a_time;
    options.recomputed_blocks = recompute.first_layers;
  }
  return Model(models::make_model(description, options));
}

} // namespace

Model build_model(
    const model::ModelDescription& description,
    const config::Config& config,
    const distributed::ProcessMesh& mesh,
    at::Device device,
    const Logger& logger,
    const BuildOptions& build) {
  Model model = made_model(description, config, mesh, device, logger, build);
  delay_fp8(config.flags.precision, model, device);
  return model;
}

} // namespace cairn::pretrain
