#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/model/description.h>

namespace cairn::checkpoints {

/// The tensors in the order of model_parameters(). A tensor that is missing,
/// unknown or of another shape is a CheckpointError. A tied head may be there,
/// and is left out.
NamedTensors parameter_tensors(
    const model::ModelDescription& description,
    const NamedTensors& tensors);

} // namespace cairn::checkpoints
