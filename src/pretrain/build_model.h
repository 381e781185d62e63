#pragma once

#include <cairn/base/log.h>
#include <cairn/checkpoint/model_description.h>
#include <cairn/config/config.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/model.h>
#include <cairn/models/model_layers.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace cairn::pretrain {

/// What a pipeline's last stage computes.
using StageLoss = std::function<
    at::Tensor(const models::Tensors& outputs, const models::Tensors& labels)>;

struct BuildOptions {
  /// Of the initial weights; none: they are left unset, to be loaded.
  std::optional<std::uint64_t> seed{};
  models::LayerInputs inputs{}; ///< of a pipeline's micro batches
  /// Another loss of a pipeline than the layered model's own.
  std::function<StageLoss(const models::LayeredModel& layered)> loss{};
};

/// As the flags say.
BuildOptions build_options(const config::Flags& flags);

/// The model, or with pipeline stages this rank's part of it (a
/// pipeline::PipelineModule).
Model build_model(
    const checkpoints::ModelDescription& description,
    const config::Config& config,
    const distributed::ProcessMesh& mesh,
    at::Device device,
    const Logger& logger,
    const BuildOptions& options);

/// How the flags spread a model over the ranks. Throws ConfigError.
distributed::ProcessMesh mesh_of(
    const config::DistributedFlags& flags,
    const distributed::ProcessGroup& world);

/// Whether it is cut into stages, or run by the same engine as if it were.
bool is_pipelined(const config::DistributedFlags& flags);

} // namespace cairn::pretrain
