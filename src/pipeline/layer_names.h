#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>

namespace cairn::pipeline {

/// Makes `layer` a part of `root`, where its parameters are called
/// `name`.parameter; a name may have dots. With an empty name, the content of
/// the layer becomes part of `root` itself. Throws UsageError if something of
/// that name is there.
void register_layer(
    torch::nn::Module& root,
    const std::string& name,
    const std::shared_ptr<torch::nn::Module>& layer);

} // namespace cairn::pipeline
