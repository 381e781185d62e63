#pragma once

#include <cairn/config/config.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/models/transformer.h>

#include <memory>

namespace gpt2 {

/// The model with initial weights; ranks that share it have a part each.
std::shared_ptr<cairn::models::Transformer> get_model(
    const cairn::models::ModelDescription& description,
    const cairn::config::Config& args,
    const cairn::distributed::ProcessMesh& mpu,
    at::Device device);

} // namespace gpt2
