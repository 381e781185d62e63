#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/model/description.h>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace cairn::models {

/// Copies a checkpoint's tensors, one at a time, into a model or a part of one:
/// each rank takes the slices that it holds. Parameters without a tensor,
/// tensors of another shape, and tensors that no such model has are a
/// CheckpointError.
void load_weights(
    torch::nn::Module& model,
    const model::ModelDescription& description,
    const checkpoints::NamedTensors& tensors);

} // namespace cairn::models
