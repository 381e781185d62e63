#pragma once

#include <cairn/base/log.h>
#include <cairn/checkpoint/model_description.h>
#include <cairn/config/config.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/model.h>

namespace cairn::pretrain {

/// The model, or with pipeline stages this rank's part of it (a
/// pipeline::PipelineModule), with its initial weights.
Model build_model(
    const checkpoints::ModelDescription& description,
    const config::Config& config,
    const distributed::ProcessMesh& mesh,
    at::Device device,
    const Logger& logger);

} // namespace cairn::pretrain
