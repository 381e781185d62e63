#pragma once

#include <cairn/checkpoint/lazy_tensor.h>
#include <cairn/checkpoint/model_description.h>

namespace cairn::checkpoints {

/// The tensors in the order of model_parameters(). What is missing, too much
/// or of another shape is a CheckpointError; the tied head may be there, and is
/// left out.
NamedTensors parameter_tensors(
    const ModelDescription& description,
    const NamedTensors& tensors);

} // namespace cairn::checkpoints
