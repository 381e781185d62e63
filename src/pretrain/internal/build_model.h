#pragma once

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/model.h>
#include <cairn/model/description.h>
#include <cairn/models/model_layers.h>
#include <cairn/nn/context_parallel.h>
#include <cairn/nn/later_values.h>
#include <cairn/pipeline/pipeline_module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace cairn::pretrain {

struct BuildOptions {
  /// The seed of the initial weights; none leaves them unset, to be loaded.
  std::optional<std::uint64_t> seed{};
  /// Set: the model is built without memory for its parameters, which note
  /// their initial values here.
  std::shared_ptr<nn::LaterValues> later{};
  models::LayerInputs inputs{}; ///< fields of a pipeline's micro batches
  /// The loss of a pipeline, if it is not the layered model's own.
  std::function<pipeline::Loss(const models::LayeredModel& layered)> loss{};
};

/// The options that the flags describe.
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

/// The ranks that share sequences, and their way of sharing.
nn::ContextParallel context_of(
    const config::DistributedFlags& flags,
    const distributed::ProcessMesh& mesh);

/// The mesh over which the flags spread a model. Throws ConfigError.
distributed::ProcessMesh mesh_of(
    const config::DistributedFlags& flags,
    const distributed::ProcessGroup& world);

} // namespace cairn::pretrain
