#pragma once

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/model.h>
#include <cairn/model/description.h>
#include <cairn/models/model_layers.h>
#include <cairn/nn/context_parallel.h>
#include <cairn/pipeline/pipeline_module.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace cairn::pretrain {

struct BuildOptions {
  /// Of the initial weights; none: they are left unset, to be loaded.
  std::optional<std::uint64_t> seed{};
  models::LayerInputs inputs{}; ///< of a pipeline's micro batches
  /// Another loss of a pipeline than the layered model's own.
  std::function<pipeline::Loss(const models::LayeredModel& layered)> loss{};
};

/// As the flags say.
BuildOptions build_options(
    const model::ModelDescription& description,
    const config::Flags& flags);

/// The model, or with pipeline stages this rank's part of it (a
/// pipeline::PipelineModule).
Model build_model(
    const model::ModelDescription& description,
    const config::Config& config,
    const distributed::ProcessMesh& mesh,
    at::Device device,
    const Logger& logger,
    const BuildOptions& options);

/// How the ranks share sequences.
nn::ContextParallel context_of(
    const config::DistributedFlags& flags,
    const distributed::ProcessMesh& mesh);

/// How the flags spread a model over the ranks. Throws ConfigError.
distributed::ProcessMesh mesh_of(
    const config::DistributedFlags& flags,
    const distributed::ProcessGroup& world);

} // namespace cairn::pretrain
