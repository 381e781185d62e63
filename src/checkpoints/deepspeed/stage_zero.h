#pragma once

#include "checkpoints/deepspeed/saved_optimizer.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace cairn::checkpoints::deepspeed {

/// The optimizer of stage 0, which is in the model's file without names.
/// `parameters` are those that it numbers, in the model's order. `order` has
/// their names in the optimizer's order, if the user gave them. Null if there
/// is no optimizer; CheckpointError where it is not clear which state belongs
/// to which parameter.
std::shared_ptr<const SavedOptimizer> stage_zero_optimizer(
    const PythonValue& optimizer,
    const NamedTensors& parameters,
    const std::vector<std::string>& order,
    const std::filesystem::path& file);

} // namespace cairn::checkpoints::deepspeed
