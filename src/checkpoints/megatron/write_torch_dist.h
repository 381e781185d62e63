#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/python_value.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace cairn::checkpoints::megatron {

/// Writes the folder of one iteration in Megatron's format "torch_dist".
/// `tensors` are in the order of model_parameters(); `common` is what Megatron
/// keeps beside them: args, checkpoint_version, iteration, … The optimizer's
/// members of it are added here: of two optimizers, if ranks divide the
/// experts.
void write_torch_dist(
    const std::filesystem::path& folder,
    const model::ModelDescription& description,
    const NamedTensors& tensors,
    std::int64_t padded_vocabulary,
    std::vector<PythonValue::Member> common,
    const std::optional<MegatronOptimizer>& optimizer,
    bool two_optimizers);

} // namespace cairn::checkpoints::megatron
