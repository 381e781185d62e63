#pragma once

#include <cairn/models/transformer.h>
#include <cairn/nn/layer.h>

namespace cairn::models {

/// The context that the layers of a model with these options are built with.
nn::LayerContext layer_context(const ModelOptions& options);

} // namespace cairn::models
